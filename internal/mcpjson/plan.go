package mcpjson

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A plan describes the JSON of a message.
type plan struct {
	// fields are the fields that have members, in the order of encoding.
	fields []*field
	// members are the fields by JSON name.
	members map[string]*field
	// extra is the field for unknown members, or nil.
	extra *field
	// required is the bit set of the required fields.
	required   uint64
	resultType string
	// union is not nil for a union.
	union *union
	// hop are the members that are not forwarded.
	hop []string
	// down converts a message to a revision.
	down downFunc
	// request reports whether the message is a client's request.
	request bool
	// open reports whether the message is a union of an open set, or contains one.
	open bool
}

// owns reports whether a member is known in any revision.
func (p *plan) owns(name string) bool {
	return p.members[name] != nil || name == "_meta" || name == "resultType" || slices.Contains(p.hop, name)
}

// caseConflict returns the known member that differs from name by case only, which a case-insensitive parser would
// confuse with it, or "". tag is the tag of a union.
func (p *plan) caseConflict(name, tag string) string {
	for own := range p.members {
		if own != name && strings.EqualFold(own, name) {
			return own
		}
	}
	for _, own := range append([]string{"_meta", "resultType", tag}, p.hop...) {
		if own != name && strings.EqualFold(own, name) {
			return own
		}
	}
	return ""
}

type plansByMessage = map[protoreflect.MessageDescriptor]*plan

// A field describes the JSON of one field.
type field struct {
	fd protoreflect.FieldDescriptor
	// via is the field of the inlined message that contains the field, or nil.
	via protoreflect.FieldDescriptor
	// key is the encoded name with its colon, and legacyKey that of revisions before 2026-07-28.
	key, legacyKey string
	// head is the encoded tag of a union.
	head    string
	kind    kind
	message *plan
	enum    *enum
	// oneof is the oneof of which at most one field may be set.
	oneof protoreflect.OneofDescriptor
	bit   uint64
	// fieldRow is the row of the table, in which name, required and always are completed by the rules for fields
	// without a row.
	fieldRow
}

// keyed returns the field for the member name in a list that is an object in JSON, or nil.
func (f *field) keyed() protoreflect.FieldDescriptor {
	if !f.fd.IsList() || f.message == nil || f.message.union == nil {
		return nil
	}
	return f.message.union.key
}

// in returns the message that contains the field: m, or the message that is inlined in it.
func (f *field) in(m protoreflect.Message) protoreflect.Message {
	if f.via != nil {
		return m.Get(f.via).Message()
	}
	return m
}

// mutableIn is in for a message that is decoded.
func (f *field) mutableIn(m protoreflect.Message) protoreflect.Message {
	if f.via != nil {
		return m.Mutable(f.via).Message()
	}
	return m
}

func (f *field) definedIn(rev bridge.Revision) bool { return rev.Within(f.since, f.until) }

// A union describes the JSON of a message that is one of several others.
type union struct {
	oneof   protoreflect.OneofDescriptor
	tag     string
	content string
	// missing is the field that is used when there is no tag, or nil.
	missing *field
	// key is the field for the member name in lists, which are objects in JSON, or nil.
	key protoreflect.FieldDescriptor
	// raw is the field for a JSON object of none of fields, or nil.
	raw      *field
	tagSince bridge.Revision
	fields   []*field
	// values are the fields by the value of the tag.
	values map[string]*field
}

// set returns the field that is set in m, or nil.
func (u *union) set(m protoreflect.Message) *field {
	fd := m.WhichOneof(u.oneof)
	if fd == nil {
		return nil
	}
	if u.raw != nil && u.raw.fd == fd {
		return u.raw
	}
	for _, f := range u.fields {
		if f.fd == fd {
			return f
		}
	}
	return nil
}

// A kind is the encoding of a single value.
type kind uint8

const (
	kindString kind = iota
	kindBytes       // base64
	kindText        // bytes that are text
	kindRaw         // JSON text
	kindBool
	kindInt
	kindDouble
	kindEnum
	kindMessage
)

// An enum describes the names of the values of an enum.
type enum struct {
	names   map[protoreflect.EnumNumber]string
	numbers map[string]protoreflect.EnumNumber
	list    string
}

// planOf returns the plan for m, or nil if m is not a message of the contract.
func planOf(m proto.Message) *plan { return plans()[m.ProtoReflect().Descriptor()] }

// plans are the plans for all messages of the contract. It panics on an invalid row of the table.
var plans = sync.OnceValue(func() map[protoreflect.MessageDescriptor]*plan {
	all := map[protoreflect.MessageDescriptor]*plan{}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_mcpbridge_v1_service_proto, pb.File_mcpbridge_v1_common_proto, pb.File_mcpbridge_v1_tool_proto,
		pb.File_mcpbridge_v1_input_proto, pb.File_mcpbridge_v1_capability_proto, pb.File_mcpbridge_v1_error_proto,
		pb.File_mcpbridge_v1_task_proto,
	} {
		for i := range file.Messages().Len() {
			newPlan(file.Messages().Get(i), all)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if !p.open && p.containsOpen() {
				p.open, changed = true, true
			}
		}
	}
	return all
})

func (p *plan) containsOpen() bool {
	fields := p.fields
	if p.union != nil {
		if p.union.raw != nil {
			return true
		}
		fields = p.union.fields
	}
	return slices.ContainsFunc(fields, func(f *field) bool { return f.message != nil && f.message.open })
}

// newPlan adds the plan for a message, and the plans that it needs, to all.
func newPlan(md protoreflect.MessageDescriptor, all map[protoreflect.MessageDescriptor]*plan) *plan {
	if p := all[md]; p != nil {
		return p
	}
	r := table[md.Name()]
	p := &plan{members: map[string]*field{}, resultType: r.resultType, hop: r.hop, down: downs[md.FullName()]}
	p.request = strings.HasSuffix(string(md.Name()), "Request")
	all[md] = p // before the nested messages, which may be recursive
	if r.tag != "" || r.untagged {
		p.union = newUnion(md, r, all)
		return p
	}
	p.add(md, nil, all)
	return p
}

// add adds the fields of a message, which is inlined by the field via unless that is nil.
func (p *plan) add(md protoreflect.MessageDescriptor, via protoreflect.FieldDescriptor, all plansByMessage) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		r := rowOf(fd)
		switch r.role {
		case internal:
		case unknownMembers:
			p.extra = &field{fd: fd, via: via}
		case inlined:
			p.add(fd.Message(), fd, all)
		case aMember:
			f := newField(fd, r, all)
			f.via = via
			f.bit = 1 << len(p.fields)
			if len(p.fields) == 64 || p.members[f.name] != nil {
				panic(fmt.Sprintf("%s: member %q is there already, or one too many", fd.FullName(), f.name))
			}
			if f.required {
				p.required |= f.bit
			}
			p.fields = append(p.fields, f)
			p.members[f.name] = f
			if f.legacyName != "" {
				p.members[f.legacyName] = f
			}
		}
	}
}

func newUnion(md protoreflect.MessageDescriptor, r row, all plansByMessage) *union {
	u := &union{
		oneof: md.Oneofs().Get(0), tag: r.tag, content: r.content, values: map[string]*field{}, tagSince: r.tagSince,
		key: md.Fields().ByName(r.key),
	}
	for i := range u.oneof.Fields().Len() {
		fd := u.oneof.Fields().Get(i)
		if rowOf(fd).role == internal {
			continue
		}
		f := newField(fd, rowOf(fd), all)
		if f.kind == kindRaw {
			u.raw = f
			continue
		}
		f.tagValue = cmp.Or(f.tagValue, string(fd.Name()))
		if u.tag != "" {
			f.head = quote(u.tag) + ":" + quote(f.tagValue)
		}
		if fd.Name() == r.tagDefault {
			u.missing = f
		}
		u.fields = append(u.fields, f)
		u.values[f.tagValue] = f
	}
	return u
}

func newField(fd protoreflect.FieldDescriptor, r fieldRow, all plansByMessage) *field {
	f := &field{fd: fd, fieldRow: r}
	f.name = cmp.Or(r.name, fd.JSONName())
	f.key = quote(f.name) + ":"
	f.legacyKey = quote(cmp.Or(r.legacyName, f.name)) + ":"
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	switch value.Kind() {
	case protoreflect.StringKind:
		f.kind = kindString
		if r.json != notJSON {
			f.kind = kindRaw
		}
	case protoreflect.BytesKind:
		switch {
		case r.json != notJSON:
			f.kind = kindRaw
		case r.text:
			f.kind = kindText
		default:
			f.kind = kindBytes
		}
	case protoreflect.BoolKind:
		f.kind = kindBool
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		f.kind = kindInt
	case protoreflect.DoubleKind:
		f.kind = kindDouble
	case protoreflect.EnumKind:
		f.kind = kindEnum
		f.enum = newEnum(value.Enum())
	case protoreflect.MessageKind:
		f.kind = kindMessage
		f.message = newPlan(value.Message(), all)
	default:
		// Only messages that are never converted to JSON have such fields.
	}
	if f.kind != kindRaw && fd.Cardinality() == protoreflect.Optional && !fd.HasPresence() && f.fallback == "" {
		f.required, f.always = true, true
	}
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		f.oneof = oneof
	}
	return f
}

// newEnum returns the names of the values: LOG_LEVEL_DEBUG of LogLevel is "debug".
func newEnum(ed protoreflect.EnumDescriptor) *enum {
	e := &enum{names: map[protoreflect.EnumNumber]string{}, numbers: map[string]protoreflect.EnumNumber{}}
	prefix := strings.TrimSuffix(string(ed.Values().ByNumber(0).Name()), "UNSPECIFIED")
	var names []string
	for i := 1; i < ed.Values().Len(); i++ {
		v := ed.Values().Get(i)
		name := strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
		e.names[v.Number()] = quote(name)
		e.numbers[name] = v.Number()
		names = append(names, name)
	}
	e.list = strings.Join(names, ", ")
	return e
}

func quote(s string) string { return string(rawjson.AppendString(nil, s)) }
