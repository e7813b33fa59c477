package bridge

import (
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A Page points to the fields that the results of all list methods have.
type Page struct {
	NextCursor  **string
	TTL         **int64 // in milliseconds
	CacheScope  *string
	Meta, Extra *string
}

// PageOf returns the Page of a list method's result. For any other message, it returns the Page of an empty result.
func PageOf(m proto.Message) Page {
	switch m := m.(type) {
	case *pb.ListToolsResponse:
		return Page{&m.NextCursor, &m.TtlMs, &m.CacheScope, &m.Meta, &m.Extra}
	case *pb.ListPromptsResponse:
		return Page{&m.NextCursor, &m.TtlMs, &m.CacheScope, &m.Meta, &m.Extra}
	case *pb.ListResourcesResponse:
		return Page{&m.NextCursor, &m.TtlMs, &m.CacheScope, &m.Meta, &m.Extra}
	case *pb.ListResourceTemplatesResponse:
		return Page{&m.NextCursor, &m.TtlMs, &m.CacheScope, &m.Meta, &m.Extra}
	}
	return PageOf(&pb.ListToolsResponse{})
}

// Cursor returns a pointer to the cursor of a list request.
func Cursor(r Request) **string {
	switch r := r.(type) {
	case *pb.ListToolsRequest:
		return &r.Cursor
	case *pb.ListPromptsRequest:
		return &r.Cursor
	case *pb.ListResourcesRequest:
		return &r.Cursor
	case *pb.ListResourceTemplatesRequest:
		return &r.Cursor
	}
	return new(*string)
}
