// Calls a server with a client built from proto/open_inference.proto, and prints the responses.
//
//     node client.js ADDRESS PROTO

"use strict";

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [address, proto] = process.argv.slice(2);
const { inference } = grpc.loadPackageDefinition(loader.loadSync(proto, { longs: Number, arrays: true }));
const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure());

const call = (name, request) =>
  new Promise((resolve, reject) =>
    client[name](request, { deadline: Date.now() + 20000 }, (error, response) => (error ? reject(error) : resolve(response))),
  );

function counting(id, count) {
  const raw = Buffer.alloc(4);
  raw.writeInt32LE(count);
  const parameters = { triton_enable_empty_final_response: { boolParam: true } };
  return {
    modelName: "stream3",
    id,
    parameters,
    inputs: [{ name: "n", datatype: "INT32", shape: [1] }],
    rawInputContents: [raw],
  };
}

async function main() {
  console.log("ready", (await call("ServerReady", {})).ready);
  const { inputs } = await call("ModelMetadata", { name: "scale" });
  console.log("input", inputs[0].name, inputs[0].datatype, JSON.stringify(inputs[0].shape));

  const typed = { name: "x", datatype: "FP32", shape: [1, 3], contents: { fp32Contents: [1, 2, 4.5] } };
  const response = await call("ModelInfer", { modelName: "scale", id: "from-js", inputs: [typed] });
  const raw = response.rawOutputContents[0];
  console.log("output", response.id, [0, 4, 8].map((at) => raw.readFloatLE(at)).join(" "));

  await call("ModelInfer", { modelName: "missing" }).catch((error) =>
    console.log("refused", error.code === grpc.status.NOT_FOUND, error.details),
  );

  const stream = client.ModelStreamInfer({ deadline: Date.now() + 20000 });
  stream.write(counting("s", 5));
  stream.end();
  for await (const { inferResponse } of stream) {
    const [chunk] = inferResponse.rawOutputContents;
    const last = inferResponse.parameters.triton_final_response.boolParam;
    console.log("chunk", inferResponse.id, chunk ? chunk.readInt32LE() : "none", last);
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
