// Package mcpbridge is for backends in Go: write functions, and the mcpbridge sidecar speaks MCP for them.
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

// An App is a set of tools, resources and prompts. Its methods, and the functions that take it, may be called concurrently,
// and while it runs: clients are told what changed.
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
	discover  *pb.DiscoverResponse // the first answer, which stays
}

// New returns an App with nothing in it.
func New(name, version string, opts ...AppOption) *App {
	protectStdout()
	a := &App{info: &pb.Implementation{Name: name, Version: version}, listeners: map[*listener]struct{}{}}
	for _, o := range opts {
		o.toApp(a)
	}
	return a
}

// Err says what is wrong with the definitions so far, each with its line, such as two tools of one name. Run refuses to
// run then, and mcpbridgetest to call.
func (a *App) Err() error {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return errors.Join(a.wrong...)
}

// Tools returns tools of the app as clients see them, for Sample. A name that does not exist is left out.
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

// RemoveTool removes a tool and says whether it was there.
func (a *App) RemoveTool(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tools.remove(name) && a.changed(kinds{tools: true})
}

// RemoveResource removes the resource with this URI and says whether it was there.
func (a *App) RemoveResource(uri string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.resources.remove(uri) && a.changed(kinds{resources: true})
}

// RemoveResourceTemplate removes a template and says whether it was there.
func (a *App) RemoveResourceTemplate(template string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.templates.remove(template) && a.changed(kinds{resources: true})
}

// RemovePrompt removes a prompt and says whether it was there.
func (a *App) RemovePrompt(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.prompts.remove(name) && a.changed(kinds{prompts: true})
}

// kinds says which of the three kinds of things are meant.
type kinds struct{ tools, resources, prompts bool }

// A table is what there is of one kind, by name and in the order of definition.
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

// A definition is where something is defined, for messages: `main.go:12: tool "add"`.
type definition struct {
	app  *App
	at   string // main.go:12
	kind string
	name string
}

// define returns the definition that the caller's caller makes.
func define(a *App, kind, name string) definition {
	d := definition{app: a, at: "?", kind: kind, name: name}
	if _, file, line, ok := runtime.Caller(2); ok {
		d.at = fmt.Sprintf("%s:%d", filepath.Base(file), line)
	}
	return d
}

// wrong remembers what is wrong with the definition.
func (d definition) wrong(format string, args ...any) {
	err := fmt.Errorf("%s: %s %q: %w", d.at, d.kind, d.name, fmt.Errorf(format, args...))
	d.app.mu.Lock()
	defer d.app.mu.Unlock()
	if d.app.running { // Else Run says it.
		logger().Error(err.Error())
	}
	d.app.wrong = append(d.app.wrong, err)
}

var validName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkName says whether a tool or prompt can have its name.
func (d definition) checkName() bool {
	if validName.MatchString(d.name) {
		return true
	}
	d.wrong("a name is 1 to 128 letters, digits, '_', '-' and '.'")
	return false
}

var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// checkScheme says whether a resource can have its URI.
func (d definition) checkScheme() bool {
	if scheme.MatchString(d.name) {
		return true
	}
	d.wrong("a URI begins with a scheme, such as file:///")
	return false
}

// add puts v into one of the app's tables and tells who listens. at says where a value was defined.
func add[T any](d definition, t *table[T], v *T, at func(*T) string, changed kinds) {
	d.app.mu.Lock()
	ok := t.add(d.name, v)
	old := t.byName[d.name]
	if ok {
		d.app.changed(changed)
	}
	d.app.mu.Unlock()
	if !ok {
		d.wrong("it is there already, from %s", at(old))
	}
}

// Options.

// An AppOption says more of an App: Instructions, Title, Icon, WebsiteURL, MaxCalls, Declares.
type AppOption interface{ toApp(a *App) }

// A ToolOption says more of a tool: Title, Icon, Meta, ReadOnly, Destructive, Idempotent, OpenWorld, InputSchema.
type ToolOption interface{ toTool(t *tool) }

// A ResourceOption says more of a resource or a template: Title, Icon, Meta, MimeType, Size, Audience, Priority, Complete.
type ResourceOption interface{ toResource(r *details) }

// A PromptOption says more of a prompt: Title, Icon, Meta, Complete.
type PromptOption interface{ toPrompt(p *details) }

// details are what options say of a resource or prompt, whichever it is.
type details struct {
	title       *string
	icons       []*pb.Icon
	meta        []byte
	mimeType    *string
	size        *int64
	annotations *pb.Annotations
	completers  map[string]Completer
	cache       cache
	err         error
}

// A Common option fits everything.
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

// Title is a name for people.
func Title(title string) Common {
	return Common{func(a *App) { a.info.Title = &title }, func(d *details) { d.title = &title }}
}

// Icon is a picture in a user interface: an `https:` or `data:` URI. There may be several.
func Icon(src string) Common {
	icon := &pb.Icon{Src: src}
	return Common{
		func(a *App) { a.info.Icons = append(a.info.Icons, icon) },
		func(d *details) { d.icons = append(d.icons, icon) },
	}
}

// Meta is MCP `_meta` of a tool, resource or prompt: anything that becomes a JSON object.
func Meta(meta any) interface {
	ToolOption
	ResourceOption
	PromptOption
} {
	return Common{nil, func(d *details) {
		var err error
		if d.meta, err = marshal(meta); err != nil {
			d.err = fmt.Errorf("its _meta: %w", err)
		}
	}}
}

type appOption func(*App)

func (o appOption) toApp(a *App) { o(a) }

// Instructions tell the model how to use the app.
func Instructions(text string) AppOption { return appOption(func(a *App) { a.instructions = text }) }

// Description is what the app is for, in a sentence.
func Description(text string) AppOption {
	return appOption(func(a *App) { a.info.Description = &text })
}

// WebsiteURL is where to read about the app.
func WebsiteURL(url string) AppOption { return appOption(func(a *App) { a.info.WebsiteUrl = &url }) }

// MaxCalls is the most calls the app wants at a time. Further ones wait in the bridge.
func MaxCalls(n uint32) AppOption { return appOption(func(a *App) { a.maxCalls = n }) }

// CacheFor says how long clients may keep the lists, or what a resource holds, and with public that they are the same for
// every caller. What is not said is not kept, but for lists, which are kept for five seconds.
func CacheFor(ttl time.Duration, public bool) interface {
	AppOption
	ResourceOption
} {
	c := cache{proto.Int64(ttl.Milliseconds()), pb.CacheScope_CACHE_SCOPE_PRIVATE.Enum()}
	if public {
		c.scope = pb.CacheScope_CACHE_SCOPE_PUBLIC.Enum()
	}
	return c
}

// A cache is what may be kept, and by whom. Nil: nothing is said.
type cache struct {
	ttl   *int64
	scope *pb.CacheScope
}

func (c cache) toApp(a *App)          { a.cache = c }
func (c cache) toResource(d *details) { d.cache = c }

// listTTL is how long lists are true, in milliseconds. The bridge looks at the list of tools with every call, to check its
// headers, and would ask us for it each time; of a change it is told at once.
func (a *App) listTTL() *int64 {
	if a.cache.ttl != nil {
		return a.cache.ttl
	}
	return proto.Int64(5000)
}

// Declares declares lists that are empty at the start and will not be later: "tools", "resources", "prompts". Clients read what
// an app has when they connect, and do not ask for anything else.
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

// Answers.

// discovered answers Discover, always the same: clients have been told.
func (a *App) discovered() *pb.DiscoverResponse {
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
	a.discover = &pb.DiscoverResponse{ServerInfo: a.info, Capabilities: c, TtlMs: a.cache.ttl, CacheScope: a.cache.scope}
	if a.instructions != "" {
		a.discover.Instructions = &a.instructions
	}
	if a.maxCalls > 0 {
		a.discover.Limits = &pb.BackendLimits{MaxConcurrentCalls: &a.maxCalls}
	}
	return a.discover
}
