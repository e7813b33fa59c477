// Package mcpbridge is the SDK for backends in Go: write functions, and the mcpbridge sidecar serves them to MCP
// clients.
//
//	type In struct {
//		City string `json:"city" jsonschema:"City name" schema:"minLen=1"`
//		Days int    `json:"days,omitempty" jsonschema:"How far to look ahead" schema:"min=1,max=14,default=3"`
//	}
//
//	func main() {
//		app := mcpbridge.New("weather", "1.0")
//		mcpbridge.Tool(app, "get_forecast", "Weather forecast", func(ctx context.Context, in In) (Forecast, error) {
//			mcpbridge.Progress(ctx, 1, 3, "fetching")
//			return fetch(ctx, in.City, in.Days)
//		}, mcpbridge.ReadOnly())
//		os.Exit(app.Run())
//	}
package mcpbridge

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// An App is a set of tools, resources and prompts. Its methods, and the functions that take it, may be called
// concurrently, and while it runs; clients are notified of changes.
type App struct {
	info         *pb.Implementation
	instructions string
	maxCalls     uint32
	later        kinds
	cache        cache

	mu        sync.RWMutex // guards the rest
	wrong     []error
	running   bool
	tools     table[tool]
	resources table[resource]
	templates table[template]
	prompts   table[prompt]
	listeners map[*listener]struct{}
	discover  *pb.DiscoverResponse // the first response, which does not change
}

// New returns an App without tools, resources and prompts.
func New(name, version string, opts ...AppOption) *App {
	protectStdout()
	a := &App{info: &pb.Implementation{Name: name, Version: version}, listeners: map[*listener]struct{}{}}
	for _, o := range opts {
		o.toApp(a)
	}
	return a
}

// Err returns the mistakes in the definitions so far, each with its line, such as two tools of one name. Run and
// mcpbridgetest fail if there are any.
func (a *App) Err() error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return errors.Join(a.wrong...)
}

// Tools returns tools of the app as clients receive them, for Sample. Unknown names are left out.
func (a *App) Tools(names ...string) (messages []*pb.Tool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, name := range names {
		if t := a.tools.byName[name]; t != nil {
			messages = append(messages, t.message)
		}
	}
	return messages
}

// RemoveTool removes a tool and reports whether it existed.
func (a *App) RemoveTool(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tools.remove(name) && a.changed(kinds{tools: true})
}

// RemoveResource removes the resource with this URI and reports whether it existed.
func (a *App) RemoveResource(uri string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resources.remove(uri) && a.changed(kinds{resources: true})
}

// RemoveResourceTemplate removes a template and reports whether it existed.
func (a *App) RemoveResourceTemplate(template string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.templates.remove(template) && a.changed(kinds{resources: true})
}

// RemovePrompt removes a prompt and reports whether it existed.
func (a *App) RemovePrompt(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.prompts.remove(name) && a.changed(kinds{prompts: true})
}

// kinds is a set of lists.
type kinds struct{ tools, resources, prompts bool }

// A table has the definitions of one kind, by name and in order.
type table[T any] struct {
	byName map[string]*T
	order  []string
}

func (t *table[T]) add(name string, v *T) bool {
	if t.byName[name] != nil {
		return false
	}
	if t.byName == nil {
		t.byName = map[string]*T{}
	}
	t.byName[name] = v
	t.order = append(t.order, name)
	return true
}

func (t *table[T]) remove(name string) bool {
	if t.byName[name] == nil {
		return false
	}
	delete(t.byName, name)
	t.order = slices.DeleteFunc(t.order, func(n string) bool { return n == name })
	return true
}

// values calls f with each value, in the order of definition.
func (t *table[T]) values(f func(*T)) {
	for _, name := range t.order {
		f(t.byName[name])
	}
}

// A definition identifies a tool, a resource or a prompt in messages: `main.go:12: tool "add"`.
type definition struct {
	app    *App
	at     string // main.go:12
	kind   string
	name   string
	repeat *sync.Once // logs that its function repeats events
}

// define returns the definition that the caller's caller makes.
func define(a *App, kind, name string) definition {
	d := definition{app: a, at: "?", kind: kind, name: name, repeat: new(sync.Once)}
	if _, file, line, ok := runtime.Caller(2); ok {
		d.at = fmt.Sprintf("%s:%d", filepath.Base(file), line)
	}
	return d
}

// wrong records a mistake in the definition.
func (d definition) wrong(format string, args ...any) {
	err := fmt.Errorf("%s: %s %q: %w", d.at, d.kind, d.name, fmt.Errorf(format, args...))
	d.app.mu.Lock()
	defer d.app.mu.Unlock()
	if d.app.running { // Otherwise Run reports it.
		logger().Error(err.Error())
	}
	d.app.wrong = append(d.app.wrong, err)
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkName reports whether the name of a tool or prompt is valid.
func (d definition) checkName() bool {
	if validName.MatchString(d.name) {
		return true
	}
	d.wrong("a name is 1 to 128 letters, digits, '_', '-' and '.'")
	return false
}

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// checkScheme reports whether the URI of a resource has a scheme.
func (d definition) checkScheme() bool {
	if scheme.MatchString(d.name) {
		return true
	}
	d.wrong("a URI begins with a scheme, such as file:///")
	return false
}

// add adds v to one of the app's tables and notifies subscribers. at returns the place of a definition.
func add[T any](d definition, t *table[T], v *T, at func(*T) string, changed kinds) {
	d.app.mu.Lock()
	ok := t.add(d.name, v)
	old := t.byName[d.name]
	if ok {
		d.app.changed(changed)
	}
	d.app.mu.Unlock()
	if !ok {
		d.wrong("it is already defined at %s", at(old))
	}
}

// Options.

// An AppOption is an option of an App: Instructions, Title, Icon, WebsiteURL, MaxCalls, Declares.
type AppOption interface{ toApp(a *App) }

// A ToolOption is an option of a tool: Title, Icon, Meta, ReadOnly, Destructive, Idempotent, OpenWorld, InputSchema,
// OutputSchema, Task, UI.
type ToolOption interface{ toTool(t *tool) }

// A ResourceOption is an option of a resource or a template: Title, Icon, Meta, MimeType, Size, Audience, Priority,
// Complete.
type ResourceOption interface{ toResource(r *details) }

// A PromptOption is an option of a prompt: Title, Icon, Meta, Complete.
type PromptOption interface{ toPrompt(p *details) }

// details are the options of a resource or prompt.
type details struct {
	title       *string
	icons       []*pb.Icon
	meta        string
	mimeType    *string
	size        *int64
	annotations *pb.Annotations
	completers  map[string]Completer
	cache       cache
	err         error
}

// A Common option applies to all definitions.
type Common struct {
	app func(*App)
	set func(*details)
}

func (c Common) toApp(a *App)          { c.app(a) }
func (c Common) toResource(r *details) { c.set(r) }
func (c Common) toPrompt(p *details)   { c.set(p) }

func (c Common) toTool(t *tool) {
	d := details{title: t.message.Title, icons: t.message.GetIcons(), meta: t.message.GetMeta()}
	c.set(&d)
	t.message.Title, t.message.Icons, t.message.Meta, t.err = d.title, d.icons, d.meta, errors.Join(t.err, d.err)
}

// Title sets the display name.
func Title(title string) Common {
	return Common{func(a *App) { a.info.Title = &title }, func(d *details) { d.title = &title }}
}

// Icon adds an icon: an `https:` or `data:` URI. There may be several.
func Icon(src string) Common {
	icon := &pb.Icon{Src: src}
	return Common{
		func(a *App) { a.info.Icons = append(a.info.Icons, icon) },
		func(d *details) { d.icons = append(d.icons, icon) },
	}
}

// Meta sets MCP `_meta` of a tool, resource or prompt: a value that becomes a JSON object.
func Meta(meta any) interface {
	ToolOption
	ResourceOption
	PromptOption
} {
	return Common{nil, func(d *details) {
		text, err := marshal(meta)
		if err != nil {
			d.err = fmt.Errorf("its _meta: %w", err)
		}
		d.meta = string(text)
	}}
}

type appOption func(*App)

func (o appOption) toApp(a *App) { o(a) }

// Instructions sets the instructions for the model.
func Instructions(text string) AppOption { return appOption(func(a *App) { a.instructions = text }) }

// Description sets the description of the app, in a sentence.
func Description(text string) AppOption {
	return appOption(func(a *App) { a.info.Description = &text })
}

// WebsiteURL sets the website of the app.
func WebsiteURL(url string) AppOption { return appOption(func(a *App) { a.info.WebsiteUrl = &url }) }

// MaxCalls sets the maximum number of concurrent calls. Further calls wait in the bridge.
func MaxCalls(n uint32) AppOption { return appOption(func(a *App) { a.maxCalls = n }) }

// CacheFor sets how long clients may cache the lists, or the content of a resource. If public is set, they are the same
// for every caller. By default, lists are cached for five seconds and content is not cached.
func CacheFor(ttl time.Duration, public bool) interface {
	AppOption
	ResourceOption
} {
	c := cache{proto.Int64(ttl.Milliseconds()), "private"}
	if public {
		c.scope = "public"
	}
	return c
}

// A cache has the cache hints. Its ttl is nil if there are none.
type cache struct {
	ttl   *int64
	scope string
}

func (c cache) toApp(a *App)          { a.cache = c }
func (c cache) toResource(d *details) { d.cache = c }

// listTTL is the default cache time of lists, in milliseconds. The bridge uses the list of tools in every call, to
// check headers, and would request it each time; it is notified of changes at once.
func (a *App) listTTL() *int64 {
	if a.cache.ttl != nil {
		return a.cache.ttl
	}
	return proto.Int64(5000)
}

// Declares declares lists that are empty at startup and get entries later: "tools", "resources", "prompts". Clients
// read the capabilities when they connect, and request only declared lists.
func Declares(lists ...string) AppOption {
	return appOption(func(a *App) {
		for _, list := range lists {
			switch list {
			case "tools":
				a.later.tools = true
			case "resources":
				a.later.resources = true
			case "prompts":
				a.later.prompts = true
			default:
				known := []string{"tools", "resources", "prompts"}
				a.wrong = append(a.wrong, fmt.Errorf("Declares(%q): there is no such list%s; there are %s",
					list, didYouMean(list, known), strings.Join(known, ", ")))
			}
		}
	})
}

// Methods of the contract.

// discoverResponse implements Discover. The response does not change, because clients read it once.
func (a *App) discoverResponse() *pb.DiscoverResponse {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.discover != nil {
		return a.discover
	}
	c := &pb.ServerCapabilities{Logging: &pb.Capability{}}
	resources := a.later.resources || len(a.resources.order)+len(a.templates.order) > 0
	prompts := a.later.prompts || len(a.prompts.order) > 0
	if a.later.tools || len(a.tools.order) > 0 || !resources && !prompts {
		c.Tools = &pb.ToolsCapability{ListChanged: proto.Bool(true)}
	}
	if resources {
		c.Resources = &pb.ResourcesCapability{Subscribe: proto.Bool(true), ListChanged: proto.Bool(true)}
	}
	if prompts {
		c.Prompts = &pb.PromptsCapability{ListChanged: proto.Bool(true)}
	}
	if resources || prompts {
		c.Completions = &pb.Capability{}
	}
	c.Extensions = a.extensions()
	a.discover = &pb.DiscoverResponse{
		ServerInfo: a.info, Capabilities: c, TtlMs: a.cache.ttl, CacheScope: a.cache.scope,
		ContractVersion: contractVersion,
	}
	if a.instructions != "" {
		a.discover.Instructions = &a.instructions
	}
	if a.maxCalls > 0 {
		a.discover.Limits = &pb.BackendLimits{MaxConcurrentCalls: a.maxCalls}
	}
	return a.discover
}
