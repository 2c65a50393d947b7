// A client in Go, compiled from the proto file: requests readiness, metadata, an inference and a refusal,
// and prints one result per line.
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "penstock.test/client/inference"
)

func main() {
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := pb.NewGRPCInferenceServiceClient(connection)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	ready, err := client.ServerReady(ctx, &pb.ServerReadyRequest{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready", ready.Ready)

	metadata, err := client.ModelMetadata(ctx, &pb.ModelMetadataRequest{Name: "double"})
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range metadata.Inputs {
		fmt.Println("input", input.Name, input.Datatype, input.Shape)
	}

	var raw bytes.Buffer
	binary.Write(&raw, binary.LittleEndian, []float32{1, 2, 3, 4.5})
	request := &pb.ModelInferRequest{
		ModelName:        "double",
		Id:               "from-go",
		Inputs:           []*pb.ModelInferRequest_InferInputTensor{{Name: "x", Datatype: "FP32", Shape: []int64{1, 4}}},
		RawInputContents: [][]byte{raw.Bytes()},
	}
	response, err := client.ModelInfer(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	values := make([]float32, 4)
	binary.Read(bytes.NewReader(response.RawOutputContents[0]), binary.LittleEndian, values)
	fmt.Println("output", response.Outputs[0].Name, response.Outputs[0].Shape, values)
	fmt.Println("id", response.Id)

	request.RawInputContents = nil
	request.Inputs[0].Contents = &pb.InferTensorContents{Fp32Contents: []float32{1, 2, 3, 4}}
	response, err = client.ModelInfer(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("typed", len(response.RawOutputContents[0]))

	request.ModelName = "missing"
	_, err = client.ModelInfer(ctx, request)
	fmt.Println("refused", status.Code(err) == codes.NotFound, status.Convert(err).Message())
}
