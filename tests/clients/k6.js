// Script of test_k6.py: REST, gRPC with reflection and with the proto file, and gRPC health.
import encoding from "k6/encoding";
import grpc from "k6/net/grpc";
import http from "k6/http";
import { check } from "k6";

const tensor = { name: "x", datatype: "FP32", shape: [1, 4] };
const raw = encoding.b64encode(new Float32Array([0, 1, 2, 3]).buffer);
const doubled = encoding.b64encode(new Float32Array([0, 2, 4, 6]).buffer);
const reflected = new grpc.Client();
const loaded = new grpc.Client();
loaded.load([__ENV.PROTO_FOLDER], "open_inference.proto");

export const options = {
  vus: 4,
  iterations: 200,
  thresholds: { checks: ["rate==1"] },
};

export default function () {
  const url = `${__ENV.HTTP}/v2/models/double/infer`;
  const body = JSON.stringify({ id: "7", inputs: [{ ...tensor, data: [0, 1, 2, 3] }] });
  const response = http.post(url, body);
  check(response, {
    "REST answers": (r) => r.status === 200,
    "REST doubles": (r) => String(r.json("outputs.0.data")) === "0,2,4,6" && r.json("id") === "7",
  });
  check(http.post(url, "{}"), { "REST refuses": (r) => r.status === 400 && r.json("error").includes("inputs") });

  for (const [name, client] of Object.entries({ reflected, loaded })) {
    if (__ITER === 0) {
      client.connect(__ENV.GRPC, { plaintext: true, reflect: name === "reflected" });
    }
    const request = { model_name: "double", inputs: [tensor], raw_input_contents: [raw] };
    const reply = client.invoke("inference.GRPCInferenceService/ModelInfer", request);
    check(reply, {
      [`gRPC answers, ${name}`]: (r) => r.status === grpc.StatusOK,
      [`gRPC doubles, ${name}`]: (r) => r.message.rawOutputContents[0] === doubled,
    });
    const refused = client.invoke("inference.GRPCInferenceService/ModelInfer", { ...request, model_name: "missing" });
    check(refused, { [`gRPC refuses, ${name}`]: (r) => r.status === grpc.StatusNotFound });
    check(client.healthCheck("double"), {
      [`gRPC health, ${name}`]: (r) => r.status === grpc.HealthCheckServing,
    });
  }
}
