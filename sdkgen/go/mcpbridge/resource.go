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

// A template is a resource for every matching URI.
type template struct {
	definition
	message    *pb.ResourceTemplate
	uris       *uritemplate.Template // without query
	query      []string              // the optional variables of {?a,b} at the end
	literal    string                // the prefix of all URIs
	read       func(context.Context, map[string][]string) (*pb.ReadResourceResult, error)
	completers map[string]Completer
}

// ResourceFunc adds a resource. Out is the type of its content: string is text, []byte is binary data, *Contents and
// []*Contents are returned unchanged, and anything else becomes JSON. Return ErrNotFound if the resource does not
// exist.
func ResourceFunc[Out any](
	a *App, uri, name, description string, fn func(context.Context) (Out, error), opts ...ResourceOption,
) {
	d, o := define(a, "resource", uri), resourceDetails(uri, opts)
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
		Uri: uri, Name: name, Title: o.title, MimeType: o.mimeType, Annotations: o.annotations, Size: o.size,
		Icons: o.icons, Meta: o.meta,
	}}
	if description != "" {
		r.message.Description = &description
	}
	r.read = func(ctx context.Context) (*pb.ReadResourceResult, error) {
		v, err := fn(ctx)
		if err != nil {
			return nil, err
		}
		return readResult(v, URI(ctx), o)
	}
	add(d, &a.resources, r, func(r *resource) string { return r.at }, kinds{resources: true})
}

// ResourceTemplate adds a resource for every URI that matches an RFC 6570 template, such as "weather://{city}/{day}".
// In is a struct with a field for each of its variables, or a map[string]string. URI returns the URI. Out is as for
// ResourceFunc.
func ResourceTemplate[In, Out any](
	a *App, uris, name, description string, fn func(context.Context, In) (Out, error), opts ...ResourceOption,
) {
	d, o := define(a, "resource template", uris), resourceDetails(uris, opts)
	t := &template{definition: d, completers: o.completers, message: &pb.ResourceTemplate{
		UriTemplate: uris, Name: name, Title: o.title, MimeType: o.mimeType, Annotations: o.annotations, Icons: o.icons,
		Meta: o.meta,
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
	in, err := inputOf[In](name, "")
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
		return readResult(out, URI(ctx), o)
	}
	add(d, &a.templates, t, func(t *template) string { return t.at }, kinds{resources: true})
}

// fits returns an error if variables do not match the fields.
func fits(n *node, path, query []string, o details) error {
	variables := slices.Concat(path, query)
	for _, v := range variables {
		if n.properties[v] == nil && n.rest == nil {
			return fmt.Errorf("there is no field for {%s}%s", v, didYouMean(v, n.order))
		}
	}
	for _, p := range n.required {
		if !slices.Contains(path, p.name) {
			return fmt.Errorf("the field for {%s} is required, but the template lacks it or has it in its query",
				p.name)
		}
	}
	for argument := range o.completers {
		if !slices.Contains(variables, argument) {
			return fmt.Errorf("there is no {%s} to complete%s", argument, didYouMean(argument, variables))
		}
	}
	return n.fitsText()
}

// readResult returns the contents of a resource whose function returned v.
func readResult(v any, uri string, d details) (*pb.ReadResourceResult, error) {
	defaultType := ""
	if d.mimeType != nil {
		defaultType = *d.mimeType
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
		if result.Contents[i], err = contentsOf(part, uri, defaultType); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// find returns the function for the resource with this URI, and its definition.
func (a *App) find(uri string) (definition, func(context.Context) (*pb.ReadResourceResult, error)) {
	a.mu.RLock()
	r := a.resources.byName[uri]
	var candidates []*template
	if r == nil {
		a.templates.values(func(t *template) {
			if strings.HasPrefix(uri, t.literal) {
				candidates = append(candidates, t)
			}
		})
	}
	a.mu.RUnlock()
	if r != nil {
		return r.definition, r.read
	}
	for _, t := range candidates {
		if values := t.match(uri); values != nil {
			return t.definition, func(ctx context.Context) (*pb.ReadResourceResult,
				error,
			) {
				return t.read(ctx, values)
			}
		}
	}
	return definition{}, nil
}

// atEnd matches a template with {?a,b} at its end. The library requires all of these variables, in order.
var atEnd = regexp.MustCompile(`^(.*)\{\?([\w,]+)\}$`)

// maxURI is the maximum length of a URI: the time of the library is not linear in it.
const maxURI = 4096

// match returns the percent-decoded values of the variables, or nil if uri does not match. Empty values, and values
// with `..` path segments, such as ../secret, do not match.
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
	if !t.uris.Regexp().MatchString(uri) { // Match is slow, and uses much memory.
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

// NotifyVisited notifies clients that the user has completed the web page of the VisitRequired with this id.
func (a *App) NotifyVisited(id string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for l := range a.listeners {
		l.visited(id)
	}
}

// NotifyUpdated notifies subscribers of the resource with this URI, or of one that contains it, that it has changed.
func (a *App) NotifyUpdated(uri string) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for l := range a.listeners {
		l.updated(uri)
	}
}

type resourceOption func(*details)

func (o resourceOption) toResource(d *details) { o(d) }

// MimeType sets the media type of a resource. By default it is text/plain, application/octet-stream or
// application/json, by the type of its content.
func MimeType(t string) ResourceOption { return resourceOption(func(d *details) { d.mimeType = &t }) }

// Size sets the size of a resource in bytes.
func Size(n int64) ResourceOption { return resourceOption(func(d *details) { d.size = &n }) }

// Priority sets the importance of a resource, from 0 (optional) to 1 (effectively required).
func Priority(p float64) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().Priority = &p })
}

// ForUser and ForAssistant set the audience of a resource. By default it is both.
func ForUser() ResourceOption { return audience("user") }

// ForAssistant is described at ForUser.
func ForAssistant() ResourceOption { return audience("assistant") }

func audience(role string) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().Audience = append(d.annotated().Audience, role) })
}

// LastModified sets the time of the last change of a resource, in ISO 8601.
func LastModified(when string) ResourceOption {
	return resourceOption(func(d *details) { d.annotated().LastModified = proto.String(when) })
}

func (d *details) annotated() *pb.Annotations {
	if d.annotations == nil {
		d.annotations = &pb.Annotations{}
	}
	return d.annotations
}

func resourceDetails(uri string, opts []ResourceOption) details {
	var d details
	for _, o := range opts {
		o.toResource(&d)
	}
	if d.mimeType == nil && strings.HasPrefix(uri, uiScheme) {
		d.mimeType = proto.String(uiType)
	}
	return d
}
