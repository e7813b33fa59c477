package clientcmd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/mcpbridge/mcpbridge/internal/problem"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// notFound returns an error for an unknown name, or the error of its server if that is unavailable.
func (c *client) notFound(what, name string, names []string) error {
	for server, err := range c.Unavailable {
		if strings.HasPrefix(name, server+"_") {
			return err
		}
	}
	fix := "the server has no " + what + "s; `mcpbridge list` shows what it has"
	switch full := slices.IndexFunc(names,
		func(k string) bool { return len(c.Names) > 1 && strings.HasSuffix(k, "_"+name) }); {
	case full >= 0:
		fix = "did you mean " + names[full] + "?"
	case len(c.Names) > 1 && slices.Contains(c.Names, name):
		fix = "it is a server: write -c FILE " + name + " to use it alone, or a name that begins with " + name + "_"
	case len(names) > 0:
		fix = problem.DidYouMean(name, names)
	}
	if what == "tool" && c.responder.capabilities().GetElicitation() == nil && problem.Nearest(name, names) == "" {
		fix += "\nit may be hidden because this client cannot answer input requests: use --answer FIELD=VALUE"
	}
	return &problem.Error{
		Exit: problem.ExitTool, Code: "not_found", What: fmt.Sprintf("there is no %s %q", what, name), Fix: fix,
	}
}

// templateOf returns the template that matches a URI, or nil. If several do, it returns the one with the longest
// literal text, which is the most specific.
func templateOf(uri string, templates []*pb.ResourceTemplate) *pb.ResourceTemplate {
	var best *pb.ResourceTemplate
	most := -1
	for _, r := range templates {
		text := r.GetUriTemplate()
		if max(len(text), len(uri)) > maxTemplate || strings.Count(text, "{")+strings.Count(text, ",") > maxVariables ||
			withLength.MatchString(text) {
			continue
		}
		t, err := uritemplate.New(text)
		if err != nil || t.Match(uri) == nil {
			continue
		}
		if fixed := len(inBraces.ReplaceAllString(text, "")); fixed > most {
			best, most = r, fixed
		}
	}
	return best
}

// The limits of a template that is compared with a URI: the library takes time in proportion to the product of their
// lengths, and does not terminate if a variable has a maximum length.
const (
	maxTemplate  = 1024 // in bytes, also of the URI
	maxVariables = 8
)

var (
	inBraces   = regexp.MustCompile(`\{[^}]*\}`)       // the variables of a template
	withLength = regexp.MustCompile(`\{[^}]*:[^}]*\}`) // variables with a maximum length
)
