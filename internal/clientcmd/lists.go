package clientcmd

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// discover returns the server's name, capabilities and instructions.
func (c *client) discover(ctx context.Context) (*pb.DiscoverResponse, error) {
	res, err := c.do(ctx, &bridge.Call{Method: bridge.Discover, Request: &pb.DiscoverRequest{Context: c.caller}})
	if err != nil {
		return nil, err
	}
	return res.(*pb.DiscoverResponse), nil
}

// all returns the entries of all pages of a list. It is empty if the server does not support the list.
func all[T any](ctx context.Context, c *client, d *pb.DiscoverResponse, m *bridge.Method,
	request func(cursor *string) bridge.Request, page func(proto.Message) (items []T, next *string),
) ([]T, error) {
	if !m.SupportedBy(d.GetCapabilities()) {
		return nil, nil
	}
	var list []T
	var cursor *string
	for range limits.ListPages {
		res, err := c.do(ctx, &bridge.Call{Method: m, Request: request(cursor)})
		if err != nil {
			if cursor == nil && bridge.AsError(err).Code == codes.Unimplemented {
				return nil, nil
			}
			if len(c.Names) > 1 && bridge.AsError(err).Code == codes.Unavailable {
				c.log.Warn().Str("why", problem.Of(err).Why).Msg("no available backend supports " + m.Name)
				return list, nil
			}
			return nil, err
		}
		items, next := page(res)
		list = append(list, items...)
		if next == nil {
			return list, nil
		}
		cursor = next
	}
	c.log.Warn().Int("pages", limits.ListPages).Msg(m.Name + " has too many pages; the rest is omitted")
	return list, nil
}

func (c *client) tools(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Tool, error) {
	return all(ctx, c, d, bridge.ListTools,
		func(cursor *string) bridge.Request { return &pb.ListToolsRequest{Context: c.caller, Cursor: cursor} },
		func(m proto.Message) ([]*pb.Tool, *string) {
			page := m.(*pb.ListToolsResponse)
			return page.GetTools(), page.NextCursor
		})
}

func (c *client) resources(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Resource, error) {
	return all(ctx, c, d, bridge.ListResources,
		func(cursor *string) bridge.Request {
			return &pb.ListResourcesRequest{Context: c.caller, Cursor: cursor}
		},
		func(m proto.Message) ([]*pb.Resource, *string) {
			page := m.(*pb.ListResourcesResponse)
			return page.GetResources(), page.NextCursor
		})
}

func (c *client) templates(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.ResourceTemplate, error) {
	return all(ctx, c, d, bridge.ListResourceTemplates,
		func(cursor *string) bridge.Request {
			return &pb.ListResourceTemplatesRequest{Context: c.caller, Cursor: cursor}
		},
		func(m proto.Message) ([]*pb.ResourceTemplate, *string) {
			page := m.(*pb.ListResourceTemplatesResponse)
			return page.GetResourceTemplates(), page.NextCursor
		})
}

func (c *client) prompts(ctx context.Context, d *pb.DiscoverResponse) ([]*pb.Prompt, error) {
	return all(ctx, c, d, bridge.ListPrompts,
		func(cursor *string) bridge.Request { return &pb.ListPromptsRequest{Context: c.caller, Cursor: cursor} },
		func(m proto.Message) ([]*pb.Prompt, *string) {
			page := m.(*pb.ListPromptsResponse)
			return page.GetPrompts(), page.NextCursor
		})
}

// An inventory is the inventory of a server.
type inventory struct {
	server    *pb.DiscoverResponse
	tools     []*pb.Tool
	resources []*pb.Resource
	templates []*pb.ResourceTemplate
	prompts   []*pb.Prompt
}

func (c *client) inventory(ctx context.Context) (*inventory, error) {
	var o inventory
	var err error
	if o.server, err = c.discover(ctx); err != nil {
		return nil, err
	}
	if o.tools, err = c.tools(ctx, o.server); err != nil {
		return nil, err
	}
	if o.resources, err = c.resources(ctx, o.server); err != nil {
		return nil, err
	}
	if o.templates, err = c.templates(ctx, o.server); err != nil {
		return nil, err
	}
	if o.prompts, err = c.prompts(ctx, o.server); err != nil {
		return nil, err
	}
	return &o, nil
}
