package clientcmd

import (
	"context"
	"fmt"
	"os"
	"unicode/utf8"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// runRead writes the content of a resource.
func runRead(ctx context.Context, c *client, args []string) error {
	d, err := c.discover(ctx)
	if err != nil {
		return err
	}
	if !bridge.ReadResource.SupportedBy(d.GetCapabilities()) {
		return c.notFound("resource", args[0], nil)
	}
	m, err := c.do(ctx, &bridge.Call{
		Method:  bridge.ReadResource,
		Request: &pb.ReadResourceRequest{Context: c.caller, Uri: args[0]},
	})
	if err != nil {
		if p := problem.Of(err); p.Exit == problem.ExitTool && p.Fix == "" {
			p.Fix = c.readFix(ctx, d, args[0])
			return p
		}
		return err
	}
	res := m.(*pb.ReadResourceResult)
	switch {
	case c.asJSON && c.output != "":
		raw, err := encode(res)
		if err != nil {
			return err
		}
		return c.save(append(raw, '\n'))
	case c.asJSON:
		return c.printMessage(res)
	}
	var data []byte
	isText := true
	for _, r := range res.GetContents() {
		switch body := r.GetBody().(type) {
		case *pb.ResourceContents_Text:
			data = append(data, body.Text...)
		case *pb.ResourceContents_Blob:
			data = append(data, body.Blob...)
			isText = isText && utf8.Valid(body.Blob)
		}
	}
	switch {
	case c.output != "":
		return c.save(data)
	case c.terminal && !isText:
		return &problem.Error{
			Exit: problem.ExitUsage, Code: "binary",
			What: fmt.Sprintf("%s is %d bytes that are not text", args[0], len(data)), Where: "stdout is a terminal",
			Fix: "write --output FILE",
		}
	case c.terminal:
		return c.writeText(string(data))
	}
	return c.write(string(data))
}

// save writes data to the file of --output.
func (c *client) save(data []byte) error {
	if err := os.WriteFile(c.output, data, 0o600); err != nil {
		return &problem.Error{
			Exit: problem.ExitUsage, Code: "output",
			What: fmt.Sprintf("cannot write %s: %v", c.output, problem.Cause(err)), Where: "--output",
			Fix: "name another file", Cause: err,
		}
	}
	return nil
}

// readFix returns the fix for a resource that cannot be read, or "" if it is listed.
func (c *client) readFix(ctx context.Context, d *pb.DiscoverResponse, uri string) string {
	const look = "`mcpbridge list` shows what there is to read"
	resources, err := c.resources(ctx, d)
	if err != nil {
		return look
	}
	var uris []string
	for _, r := range resources {
		switch uri {
		case r.GetUri():
			return ""
		case r.GetName():
			return "write its URI: " + r.GetUri()
		}
		uris = append(uris, r.GetUri())
	}
	if best := problem.Nearest(uri, uris); best != "" {
		return "did you mean " + best + "?"
	}
	templates, err := c.templates(ctx, d)
	if r := templateOf(uri, templates); err == nil && r != nil {
		return "it must match " + r.GetUriTemplate() + "; see `mcpbridge describe`"
	}
	return look
}
