package mcpjson

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/proto"
)

// descriptor returns the message of the contract with a name, or nil.
func descriptor(name protoreflect.Name) protoreflect.MessageDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName("mcpbridge.v1." + protoreflect.FullName(name))
	md, ok := d.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return nil
	}
	return md
}

func TestRowsDescribeFieldsThatExist(t *testing.T) {
	for name, r := range table {
		md := descriptor(name)
		if md == nil {
			t.Errorf("%s: no such message", name)
			continue
		}
		union := r.tag != "" || r.untagged
		switch {
		case union && md.Oneofs().Len() != 1:
			t.Errorf("%s: a union has one oneof", name)
		case r.tag != "" && r.untagged:
			t.Errorf("%s: both a tag and none", name)
		case r.tag == "" && (r.content != "" || r.tagDefault != "" || r.tagSince != bridge.NoRevision):
			t.Errorf("%s: no tag", name)
		case r.tagDefault != "" && md.Fields().ByName(r.tagDefault) == nil:
			t.Errorf("%s: no field %s", name, r.tagDefault)
		case r.key != "" && (!union || md.Fields().ByName(r.key) == nil || r.fields[r.key].role != internal):
			t.Errorf("%s: %s is no internal field of a union", name, r.key)
		}
		for field, f := range r.fields {
			if fd := md.Fields().ByName(field); fd == nil {
				t.Errorf("%s: no field %s", name, field)
			} else if wrong := wrongRow(fd, r, f); wrong != "" {
				t.Errorf("%s.%s: %s", name, field, wrong)
			}
		}
	}
}

// wrongRow returns what in a row does not fit the field, or "".
func wrongRow(fd protoreflect.FieldDescriptor, r row, f fieldRow) string {
	text := fd.Kind() == protoreflect.StringKind || fd.Kind() == protoreflect.BytesKind
	switch {
	case f == everywhere[fd.Name()]:
		return "the row of a field without one"
	case f.name == fd.JSONName():
		return "the name of a field without one"
	case f.tagValue != "" && (r.tag == "" || f.tagValue == string(fd.Name())):
		return "no tag, or the value of a field without one"
	case (f.when != "") != (r.untagged && f.json == notJSON && f.role != internal):
		return "when is for the fields of a union without a tag"
	case f.json != notJSON && !text, f.text && fd.Kind() != protoreflect.BytesKind, f.text && f.json != notJSON:
		return "JSON text is a string or bytes, other text is bytes"
	case f.notEmpty && (fd.Kind() != protoreflect.StringKind || fd.HasPresence()):
		return "only a string without optional can be empty"
	case f.always && fd.Message() == nil && !fd.IsList(), f.single && !fd.IsList(), f.required && fd.Message() == nil:
		return "required is for messages, always for messages and lists, single for lists"
	case f.role == inlined && fd.Message() == nil:
		return "only a message is inline"
	case f.role == internal && f != fieldRow{role: internal}:
		return "an internal field has no member"
	case f.fallback != "" && (f.always || !json.Valid([]byte(f.fallback))):
		return "the fallback is not JSON, or never used"
	case f.until != bridge.NoRevision && f.until <= f.since:
		return "until is not after since"
	}
	return ""
}

var (
	messageLine = regexp.MustCompile(`^message (\w+) \{`)
	textLine    = regexp.MustCompile(`^ +(?:optional |repeated )?(?:string|bytes) (\w+) = \d+;`)
)

// The comment of a field is what backends read. It contains "JSON" if and only if the table lists the field as JSON.
func TestEveryFieldOfJSONTextIsListed(t *testing.T) {
	paths, err := fs.Glob(proto.Files, "mcpbridge/v1/*.proto")
	if err != nil {
		t.Fatal(err)
	}
	listed := 0
	for _, path := range paths {
		data, err := fs.ReadFile(proto.Files, path)
		if err != nil {
			t.Fatal(err)
		}
		var md protoreflect.MessageDescriptor
		comment := ""
		for line := range strings.Lines(string(data)) {
			if c, ok := strings.CutPrefix(strings.TrimSpace(line), "//"); ok {
				comment += c
				continue
			}
			if m := messageLine.FindStringSubmatch(line); m != nil {
				md = descriptor(protoreflect.Name(m[1]))
			}
			if m := textLine.FindStringSubmatch(line); m != nil {
				fd := md.Fields().ByName(protoreflect.Name(m[1]))
				holds, _ := HoldsJSON(fd)
				if mentionsJSON := strings.Contains(strings.ReplaceAll(comment, "JSON-RPC", ""),
					"JSON"); mentionsJSON != holds {
					t.Errorf("%s: listed as JSON text: %t; its comment has the word JSON: %t", fd.FullName(), holds,
						mentionsJSON)
				}
				if holds {
					listed++
				}
			}
			comment = ""
		}
	}
	if listed < 100 {
		t.Errorf("only %d fields of JSON text found", listed)
	}
}
