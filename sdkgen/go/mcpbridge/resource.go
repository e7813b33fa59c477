package mcpbridge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"
	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A resource is a URI that can be read.
type resource struct {
	definition
	message *pb.Resource
	read    func(context.Context) (*pb.ReadResourceResult, error)
}

// A template is a resource for every URI that fits.
type template struct {
	definition
	message    *pb.ResourceTemplate
	uris       *uritemplate.Template // without query
	query      []string              // the variables of {?a,b} at the end, each of which may be missing
	literal    string                // what they all begin with
	read       func(context.Context, map[string][]string) (*pb.ReadResourceResult, error)
	completers map[string]Completer
}

// ResourceFunc adds a resource. Out is what it holds: string is text, []byte is bytes, *Contents and []*Contents are exactly
// that, and anything else becomes JSON. An ErrNotFound says that it does not exist.
func ResourceFunc[Out any](
	a *App, uri, name, description string, fn func(context.Context) (Out, error), opts ...ResourceOption,
) {
	d, o := define(a, "resource", uri), resourceDetails(opts)
	if o.err != nil {
		d.wrong("%w", o.err)
		return
	}
	if !d.checkScheme() {
		return
	}
	if o.completers != nil {
		d.wrong("Complete is for resource templates and prompts: a resource has no arguments")
		return
	}
	r := &resource{definition: d, message: &pb.Resource{
		Uri: uri, Name: name, Title: o.title, MimeType: o.mimeType, Annotations: o.annotations, Size: o.size, Icons: o.icons, Meta: o.meta,
	}}
	if description != "" {
		r.message.Description = &description
	}
	r.read = func(ctx context.Context) (*pb.ReadResourceResult, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return holds(v, URI(ctx), o)
	}
	add(d, &a.resources, r, func(r *resource) string { return r.at }, kinds{resources: true})
}

// ResourceTemplate adds a resource for every URI that fits an RFC 6570 template, such as "weather://{city}/{day}". In is a
// struct with a field for each of its variables, or a map[string]string. URI has the URI. Out is as for ResourceFunc.
func ResourceTemplate[In, Out any](
	a *App, uris, name, description string, fn func(context.Context, In) (Out, error), opts ...ResourceOption,
) {
	d, o := define(a, "resource template", uris), resourceDetails(opts)
	t := &template{definition: d, completers: o.completers, message: &pb.ResourceTemplate{
		UriTemplate: uris, Name: name, Title: o.title, MimeType: o.mimeType, Annotations: o.annotations, Icons: o.icons, Meta: o.meta,
	}}
	if description != "" {
		t.message.Description = &description
	}
	if !d.checkScheme() {
		return
	}
	var err error
	before := uris
	if m := atEnd.FindStringSubmatch(uris); m != nil {
		before, t.query = m[1], strings.Split(m[2], ",")
	}
	if t.uris, err = uritemplate.New(before); err == nil {
		err = o.err
	}
	if err != nil {
		d.wrong("%w", err)
		return
	}
	t.literal, _, _ = strings.Cut(uris, "{")
	in, err := inputOf[In](name, nil)
	if err == nil {
		err = fits(in.node, t.uris.Varnames(), t.query, o)
	}
	if err != nil {
		d.wrong("its variables: %w", err)
		return
	}
	t.completers = in.node.completers(t.completers)
	t.read = func(ctx context.Context, arguments map[string][]string) (*pb.ReadResourceResult, error) {
		v, err := in.readArguments(name, in.node.fromText(arguments))
		if err != nil {
			return nil, &Error{Code: -32602, Message: err.Error()}
		}
		out, err := fn(ctx, v)
		if err != nil {
			return nil, err
		}
		return holds(out, URI(ctx), o)
	}
	add(d, &a.templates, t, func(t *template) string { return t.at }, kinds{resources: true})
}

// fits says why variables do not fit the fields they are read into.
func fits(n *node, path, query []string, o details) error {
	variables := slices.Concat(path, query)
	for _, v := range variables {
		if n.properties[v] == nil && n.rest == nil {
			return fmt.Errorf("there is no field for {%s}%s", v, didYouMean(v, n.order))
		}
	}
	for _, p := range n.required {
		if !slices.Contains(path, p.name) {
			return fmt.Errorf("there is no {%s} for the field, or it may be missing, and the field is not optional", p.name)
		}
	}
	for argument := range o.completers {
		if !slices.Contains(variables, argument) {
			return fmt.Errorf("there is no {%s} to complete%s", argument, didYouMean(argument, variables))
		}
	}
	return n.fitsText()
}

// holds is what a resource holds whose function returned v.
func holds(v any, uri string, d details) (*pb.ReadResourceResult, error) {
	usual := ""
	if d.mimeType != nil {
		usual = *d.mimeType
	}
	parts := []any{v}
	switch v := v.(type) {
	case *pb.ReadResourceResult:
		if v == nil {
			return nil, errors.New("the resource returned a nil *ReadResourceResult and no error")
		}
		return v, nil
	case []*Contents:
		parts = parts[:0]
		for _, c := range v {
			parts = append(parts, c)
		}
	}
	result := &pb.ReadResourceResult{
		Contents: make([]*pb.ResourceContents, len(parts)), TtlMs: d.cache.ttl, CacheScope: d.cache.scope,
	}
	for i, part := range parts {
		var err error
		if result.Contents[i], err = contentsOf(part, uri, usual); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// find returns how to read the resource with this URI, and its definition.
func (a *App) find(uri string) (definition, func(context.Context) (*pb.ReadResourceResult, error)) {
	a.mu.RLock()
	r := a.resources.byName[uri]
	var fitting []*template
	if r == nil {
		a.templates.values(func(t *template) {
			if strings.HasPrefix(uri, t.literal) {
				fitting = append(fitting, t)
			}
		})
	}
	a.mu.RUnlock()
	if r != nil {
		return r.definition, r.read
	}
	for _, t := range fitting {
		if values := t.match(uri); values != nil {
			return t.definition, func(ctx context.Context) (*pb.ReadResourceResult, error) { return t.read(ctx, values) }
		}
	}
	return definition{}, nil
}

// atEnd is a template with {?a,b} at its end. The library matches these in their order only, and all of them.
var atEnd = regexp.MustCompile(`^(.*)\{\?([\w,]+)\}$`)

// maxURI is of a URI that is matched: what the library does for it grows faster than that.
const maxURI = 4096

// match returns the values of the variables, percent-decoded, or nil if uri is none of the template's. An empty value is
// none, nor is one that climbs out of a folder, such as ../secret.
func (t *template) match(uri string) map[string][]string {
	if len(uri) > maxURI {
		return nil
	}
	var query url.Values
	if t.query != nil {
		before, after, _ := strings.Cut(uri, "?")
		var err error
		if query, err = url.ParseQuery(after); err != nil {
			return nil
		}
		uri = before
	}
	if !t.uris.Regexp().MatchString(uri) { // Match is slow, and it keeps everything it tries.
		return nil
	}
	found := t.uris.Match(uri)
	if found == nil {
		return nil
	}
	values := make(map[string][]string, len(found))
	for name, v := range found {
		for _, one := range v.V {
			if one == "" || slices.Contains(strings.FieldsFunc(one, isSlash), "..") {
				return nil
			}
		}
		values[name] = v.V
	}
	for name, v := range query {
		if !slices.Contains(t.query, name) {
			return nil
		}
		values[name] = v
	}
	return values
}

func isSlash(r rune) bool { return r == '/' || r == '\\' }

// NotifyVisited tells clients that wait for it that the user is done at the web page of the VisitRequired with this id.
func (a *App) NotifyVisited(id string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for l := range a.listeners {
		l.visited(id)
	}
}

// NotifyUpdated tells those who listen to the resource with this URI, or to one that it is part of, that it has changed.
func (a *App) NotifyUpdated(uri string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for l := range a.listeners {
		l.updated(uri)
	}
}

type resourceOption func(*details)

func (o resourceOption) toResource(d *details) { o(d) }

// MimeType is the media type of what a resource holds. What is not said is text/plain, application/octet-stream or
// application/json, by what it returns.
func MimeType(t string) ResourceOption { return resourceOption(func(d *details) { d.mimeType = &t }) }

// Size is how many bytes a resource holds.
func Size(n int64) ResourceOption { return resourceOption(func(d *details) { d.size = &n }) }

// Priority is how much a resource matters, from 0 (not at all) to 1 (as good as required).
func Priority(p float64) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().Priority = &p })
}

// ForUser and ForAssistant say for whom a resource is meant. Neither: for everybody.
func ForUser() ResourceOption { return audience(pb.Role_ROLE_USER) }

// ForAssistant is described at ForUser.
func ForAssistant() ResourceOption { return audience(pb.Role_ROLE_ASSISTANT) }

func audience(r pb.Role) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().Audience = append(d.annotated().Audience, r) })
}

// LastModified is when a resource was last changed, in ISO 8601.
func LastModified(when string) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().LastModified = proto.String(when) })
}

func (d *details) annotated() *pb.Annotations {
	if d.annotations == nil {
		d.annotations = &pb.Annotations{}
	}
	return d.annotations
}

func resourceDetails(opts []ResourceOption) details {
	var d details
	for _, o := range opts {
		o.toResource(&d)
	}
	return d
}
