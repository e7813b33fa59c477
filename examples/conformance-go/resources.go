package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A resource is a row of the table below.
type resource struct {
	uri, name, description, mime string
	read                         func(*server) *pb.ResourceContents
}

// watchedURI names the resource that changes whenever a list does.
const watchedURI = "test://watched-resource"

// resources are in the order in which they are listed.
var resources = []resource{
	{
		"test://static-text", "static-text", "A text that stays the same.", "text/plain",
		func(*server) *pb.ResourceContents {
			return textContents("test://static-text", "text/plain", "This is the content of the static text resource.")
		},
	},
	{
		"test://static-binary", "static-binary", "An image that stays the same.", "image/png",
		func(*server) *pb.ResourceContents {
			return blobContents("test://static-binary", "image/png", redPixel)
		},
	},
	{
		watchedURI, "watched-resource", "How often the lists have changed.", "text/plain",
		func(s *server) *pb.ResourceContents {
			return textContents(watchedURI, "text/plain",
				fmt.Sprintf("The lists have changed %d times.", s.changes.times()))
		},
	},
}

// The parts of the template's URIs before and after the ID.
const beforeID, afterID = "test://template/", "/data"

func (*server) ListResources(context.Context, *pb.ListResourcesRequest) (*pb.ListResourcesResponse, error) {
	res := &pb.ListResourcesResponse{TtlMs: listTTL, CacheScope: listScope}
	for _, r := range resources {
		res.Resources = append(res.Resources, &pb.Resource{
			Uri: r.uri, Name: r.name, Description: proto.String(r.description), MimeType: proto.String(r.mime),
		})
	}
	return res, nil
}

func (*server) ListResourceTemplates(context.Context,
	*pb.ListResourceTemplatesRequest,
) (*pb.ListResourceTemplatesResponse, error) {
	return &pb.ListResourceTemplatesResponse{
		TtlMs: listTTL, CacheScope: listScope,
		ResourceTemplates: []*pb.ResourceTemplate{{
			UriTemplate: beforeID + "{id}" + afterID, Name: "template", Description: proto.String("Data by id."),
			MimeType: proto.String("application/json"),
		}},
	}, nil
}

func (s *server) ReadResource(req *pb.ReadResourceRequest,
	stream grpc.ServerStreamingServer[pb.ReadResourceResponse],
) error {
	contents, err := s.read(req.GetUri())
	if err != nil {
		return err
	}
	result := &pb.ReadResourceResult{Contents: []*pb.ResourceContents{contents}, TtlMs: listTTL, CacheScope: listScope}
	return stream.Send(&pb.ReadResourceResponse{Event: &pb.ReadResourceResponse_Result{Result: result}})
}

func (s *server) read(uri string) (*pb.ResourceContents, error) {
	for _, r := range resources {
		if r.uri == uri {
			return r.read(s), nil
		}
	}
	rest, ok := strings.CutPrefix(uri, beforeID)
	id, ok2 := strings.CutSuffix(rest, afterID)
	if !ok || !ok2 || id == "" || strings.Contains(id, "/") {
		return nil, status.Errorf(codes.NotFound, "there is no resource %q", uri)
	}
	data, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	if err != nil {
		return nil, err
	}
	return textContents(uri, "application/json", string(data)), nil
}
