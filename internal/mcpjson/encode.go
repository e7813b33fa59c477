package mcpjson

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// maxNesting is the maximum depth of nested messages. Only tool results that contain tool results come near it.
const maxNesting = 64

type encoder struct {
	dst    []byte
	rev    bridge.Revision
	limits *limits.Limits // of JSON text, which comes from backends
	depth  int
}

// An object configures the encoding of one object.
type object struct {
	// head is the encoded first member, the tag of a union.
	head string
	// tag is the name of the tag.
	tag string
	// meta is added to `_meta`.
	meta []Member
}

func (e *encoder) message(m protoreflect.Message, p *plan, o object) error {
	if p.down != nil {
		downgraded, err := p.down(m.Interface(), e.rev)
		if err != nil {
			return err
		}
		m = downgraded.ProtoReflect()
	}
	if p.union != nil {
		return e.union(m, p.union, o)
	}
	if e.depth++; e.depth > maxNesting {
		return fmt.Errorf("nested deeper than %d", maxNesting)
	}
	e.dst = append(append(e.dst, '{'), o.head...)
	if p.resultType != "" && e.rev.HasResultType() {
		e.key(`"resultType":`)
		e.dst = rawjson.AppendString(e.dst, p.resultType)
	}
	from, via := m, protoreflect.FieldDescriptor(nil)
	for _, f := range p.fields {
		if !f.definedIn(e.rev) {
			continue
		}
		if f.via != via { // once for all fields of an inlined message
			from, via = f.in(m), f.via
		}
		if len(o.meta) > 0 && f.name == "_meta" {
			if err := e.meta(rawjson.AsBytes(from.Get(f.fd).String()), o.meta); err != nil {
				return at(err, f.name)
			}
			o.meta = nil
			continue
		}
		if err := e.field(from, f); err != nil {
			return at(err, f.name)
		}
	}
	if len(o.meta) > 0 {
		if err := e.meta(nil, o.meta); err != nil {
			return at(err, "_meta")
		}
	}
	if p.extra != nil {
		if err := e.extra(rawjson.AsBytes(p.extra.in(m).Get(p.extra.fd).String()), p, o.tag); err != nil {
			return err
		}
	}
	e.dst = append(e.dst, '}')
	e.depth--
	return nil
}

// union writes the field of a union that is set.
func (e *encoder) union(m protoreflect.Message, u *union, o object) error {
	f := u.set(m)
	if f == nil {
		return errors.New("nothing is set")
	}
	if f == u.raw {
		return e.raw(rawjson.AsBytes(m.Get(f.fd).String()), f)
	}
	if !f.definedIn(e.rev) {
		return fmt.Errorf("%q is not supported in %s", f.tagValue, e.rev)
	}
	o.tag = u.tag
	if e.rev.Within(u.tagSince, bridge.NoRevision) {
		o.head = f.head
	}
	inner := m.Get(f.fd).Message()
	if u.content == "" {
		return e.message(inner, f.message, o)
	}
	e.dst = append(append(append(e.dst, '{'), o.head...), ',')
	e.dst = append(rawjson.AppendString(e.dst, u.content), ':')
	if err := e.message(inner, f.message, object{meta: o.meta}); err != nil {
		return at(err, u.content)
	}
	e.dst = append(e.dst, '}')
	return nil
}

func (e *encoder) key(key string) {
	if e.dst[len(e.dst)-1] != '{' {
		e.dst = append(e.dst, ',')
	}
	e.dst = append(e.dst, key...)
}

// field writes the member of a field, if it is set.
func (e *encoder) field(m protoreflect.Message, f *field) error {
	key := f.key
	if !e.rev.Modern() {
		key = f.legacyKey
	}
	if !f.always && !m.Has(f.fd) {
		if f.fallback != "" {
			e.key(key)
			e.dst = append(e.dst, f.fallback...)
		}
		return nil
	}
	v := m.Get(f.fd)
	switch {
	case f.fd.IsMap():
		e.key(key)
		return e.entries(v.Map(), f)
	case f.keyed() != nil:
		e.key(key)
		return e.keyed(v.List(), f)
	case f.fd.IsList():
		e.key(key)
		return e.list(v.List(), f)
	case f.kind == kindEnum && v.Enum() == 0:
		// The enum value UNSPECIFIED, which is a mistake of the backend unless there is a default.
		if f.always {
			return errors.New("is not set")
		}
		if f.fallback != "" {
			e.key(key)
			e.dst = append(e.dst, f.fallback...)
		}
		return nil
	}
	if f.notEmpty && v.String() == "" {
		return errors.New("is not set")
	}
	e.key(key)
	return e.value(v, f)
}

func (e *encoder) list(list protoreflect.List, f *field) error {
	if f.single && list.Len() == 1 {
		return e.value(list.Get(0), f)
	}
	e.dst = append(e.dst, '[')
	for i := range list.Len() {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		if err := e.value(list.Get(i), f); err != nil {
			return at(err, index(i))
		}
	}
	e.dst = append(e.dst, ']')
	return nil
}

// keyed writes a list as an object, in its order.
func (e *encoder) keyed(list protoreflect.List, f *field) error {
	seen := make(map[string]bool, list.Len())
	e.dst = append(e.dst, '{')
	for i := range list.Len() {
		k := list.Get(i).Message().Get(f.keyed()).String()
		if seen[k] {
			return at(errors.New("duplicate key"), entry(k))
		}
		seen[k] = true
		e.key("")
		e.dst = append(rawjson.AppendString(e.dst, k), ':')
		if err := e.value(list.Get(i), f); err != nil {
			return at(err, entry(k))
		}
	}
	e.dst = append(e.dst, '}')
	return nil
}

// entries writes a map sorted by key, so that the output is deterministic.
func (e *encoder) entries(m protoreflect.Map, f *field) error {
	values := make(map[string]protoreflect.Value, m.Len())
	for k, v := range m.Range {
		values[k.String()] = v
	}
	e.dst = append(e.dst, '{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			e.dst = append(e.dst, ',')
		}
		e.dst = append(rawjson.AppendString(e.dst, k), ':')
		if err := e.value(values[k], f); err != nil {
			return at(err, entry(k))
		}
	}
	e.dst = append(e.dst, '}')
	return nil
}

func (e *encoder) value(v protoreflect.Value, f *field) error {
	switch f.kind {
	case kindMessage:
		return e.message(v.Message(), f.message, object{})
	case kindString:
		e.dst = rawjson.AppendString(e.dst, v.String())
	case kindText:
		if !utf8.Valid(v.Bytes()) {
			return errors.New("must be UTF-8")
		}
		e.dst = rawjson.AppendString(e.dst, rawjson.AsString(v.Bytes()))
	case kindBytes:
		e.dst = base64.StdEncoding.AppendEncode(append(e.dst, '"'), v.Bytes())
		e.dst = append(e.dst, '"')
	case kindRaw:
		if f.fd.Kind() == protoreflect.BytesKind {
			return e.raw(v.Bytes(), f)
		}
		return e.raw(rawjson.AsBytes(v.String()), f)
	case kindBool:
		e.dst = strconv.AppendBool(e.dst, v.Bool())
	case kindInt:
		e.dst = strconv.AppendInt(e.dst, v.Int(), 10)
	case kindDouble:
		x := v.Float()
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%v is not a number of JSON", x)
		}
		e.dst = jsontext.AppendFloat(e.dst, x, 64)
	case kindEnum:
		name := f.enum.names[v.Enum()]
		if name == "" {
			return fmt.Errorf("unknown value %d, known are %s", v.Enum(), f.enum.list)
		}
		e.dst = append(e.dst, name...)
	}
	return nil
}

// raw writes JSON text. A value that cannot be null must be an object, as all such members of MCP are.
func (e *encoder) raw(text []byte, f *field) error {
	if f.json == anObject && !rawjson.IsObject(text) {
		return fmt.Errorf("must be a JSON object, not %s", rawjson.Shorten(text))
	}
	if err := rawjson.CheckWithin(text, e.limits); err != nil {
		return fmt.Errorf("is not strict JSON: %w", err)
	}
	e.dst = rawjson.AppendLine(e.dst, text)
	return nil
}

// meta writes the message's `_meta` merged with the members of set.
func (e *encoder) meta(has []byte, set []Member) error {
	if len(has) > 0 {
		if !rawjson.IsObject(has) {
			return fmt.Errorf("must be a JSON object, not %s", rawjson.Shorten(has))
		}
		if err := rawjson.CheckWithin(has, e.limits); err != nil {
			return fmt.Errorf("is not strict JSON: %w", err)
		}
	}
	before := len(e.dst)
	e.key(`"_meta":{`)
	empty := len(e.dst)
	for name, value := range rawjson.Members(has) {
		if !slices.ContainsFunc(set, func(s Member) bool { return s.Name == string(name) }) {
			e.member(string(name), value)
		}
	}
	for _, s := range set {
		if s.Value != nil {
			e.member(s.Name, s.Value)
		}
	}
	if len(e.dst) == empty {
		e.dst = e.dst[:before]
		return nil
	}
	e.dst = append(e.dst, '}')
	return nil
}

// extra writes the unknown members. It drops those that have a field in any revision, which would be duplicates.
func (e *encoder) extra(text []byte, p *plan, tag string) error {
	if len(text) == 0 {
		return nil
	}
	if !rawjson.IsObject(text) {
		return fmt.Errorf("unknown members must be a JSON object, not %s", rawjson.Shorten(text))
	}
	if err := rawjson.CheckWithin(text, e.limits); err != nil {
		return fmt.Errorf("unknown members are not strict JSON: %w", err)
	}
	for name, value := range rawjson.Members(text) {
		if !p.owns(string(name)) && p.caseConflict(string(name), tag) == "" && string(name) != tag {
			e.member(string(name), value)
		}
	}
	return nil
}

// member writes a member with a validated value.
func (e *encoder) member(name string, value []byte) {
	e.key("")
	e.dst = append(rawjson.AppendString(e.dst, name), ':')
	e.dst = rawjson.AppendLine(e.dst, value)
}

func index(i int) string    { return "[" + strconv.Itoa(i) + "]" }
func entry(k string) string { return "[" + quote(rawjson.Shorten(k)) + "]" }
