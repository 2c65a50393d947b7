// How a model batches, its instances, and what it has done so far: read again while the page is looked at.

const NUMBERS_EVERY = 2000;

function duration(nanoseconds) {
  const [size, unit] = nanoseconds < 1e6 ? [1e3, "µs"] : nanoseconds < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Number((nanoseconds / size).toPrecision(2))} ${unit}`;
}

function served(stats) {
  const { success, fail, queue, compute_infer: handler } = stats.inference_stats;
  const done = [counted(success.count, "request"), fail.count && `${fail.count.toLocaleString("en")} failed`];
  if (stats.execution_count) done.push(`${Number((stats.inference_count / stats.execution_count).toPrecision(2))} rows a batch`);
  if (success.count) done.push(`${duration(queue.ns / success.count)} in the queue and ${duration(handler.ns / success.count)} in the handler, on average`);
  return done.filter(Boolean).join(", ");
}

function numbers(model) {
  const line = h("p", { class: "facts numbers" });
  const path = `/v2/models/${encodeURIComponent(model.model)}/versions/${encodeURIComponent(model.version)}`;
  const read = (what) => ask(`${path}/${what}`).then((answer) => (answer.ok ? answer.json() : null)).catch(() => null);
  const start = read("config").then((config) => {
    if (!config) return "";
    const rows = config.max_batch_size > 1 ? `Batches of up to ${counted(config.max_batch_size, "row")}, ` : "One call for each request, ";
    return `${rows}${counted((config.instance_group || []).reduce((sum, group) => sum + group.count, 0) || 1, "instance")}. `;
  });
  let early = 5;
  const draw = async () => {
    const [first, stats] = [await start, document.hidden ? null : await read("stats")];
    if (stats) line.textContent = `${first}${served(stats.model_stats[0])}.`;
    // The first readings may be over before the view is drawn.
    if (line.isConnected || early-- > 0) setTimeout(draw, NUMBERS_EVERY);
  };
  draw();
  return line;
}
