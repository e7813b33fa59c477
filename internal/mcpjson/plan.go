package mcpjson

import (
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

// A plan is how a message is read and written.
type plan struct {
	// fields are the fields that have members, in the order in which they are written.
	fields []*field
	// members are the same fields by the names of their members.
	members map[string]*field
	// extra is the field of the members without a field, if there is one.
	extra protoreflect.FieldDescriptor
	// required are the bits of the fields that a JSON object must have.
	required uint64
	// resultType is the message's `resultType`, if it is a result.
	resultType string
	// union is not nil if the message is one.
	union *union
	// hop are the members that are neither read nor written here.
	hop []string
	// down says a message in the words of a revision.
	down downFunc
	// request says that the message is what a client asks for.
	request bool
}

// owns reports whether a member is not one of those without a field, in any revision.
func (p *plan) owns(name string) bool {
	return p.members[name] != nil || name == "_meta" || name == "resultType" || slices.Contains(p.hop, name)
}

// like returns the member that another one would be in another case, or nothing: whoever reads names without regard to case would take
// it for that one. The tag is that of a union.
func (p *plan) like(name, tag string) string {
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

// A field is how one field is read and written.
type field struct {
	fd protoreflect.FieldDescriptor
	// via is the field of the inlined message that has the field, if it is not the message itself.
	via protoreflect.FieldDescriptor
	// name is the member's name, and in a union the value of the tag.
	name string
	// key is the name as it is written, with its colon.
	key string
	// head is, in a union with a tag, the member that is the tag, as it is written.
	head         string
	kind         kind
	message      *plan
	enum         *enum
	since, until bridge.Revision
	// always says that the member is written when the field is not set too.
	always   bool
	fallback string
	nullable bool
	single   bool
	// alone says that no other field of the same oneof can be set.
	alone protoreflect.OneofDescriptor
	// when is, in a union without a tag, the member that tells that this field is meant.
	when string
	bit  uint64
}

// in reports whether a revision has the member.
func (f *field) in(rev bridge.Revision) bool { return rev.Within(f.since, f.until) }

// A union is how a message is written that is one of several others.
type union struct {
	oneof   protoreflect.OneofDescriptor
	tag     string
	content string
	// missing is the field that is meant when there is no tag, if that is allowed.
	missing  *field
	tagSince bridge.Revision
	fields   []*field
	names    map[string]*field
}

// set returns the field of the union that is set in m, or nil.
func (u *union) set(m protoreflect.Message) *field {
	fd := m.WhichOneof(u.oneof)
	if fd == nil {
		return nil
	}
	for _, f := range u.fields {
		if f.fd == fd {
			return f
		}
	}
	return nil
}

// A kind is how a single value is written.
type kind uint8

const (
	kindString kind = iota
	kindBytes       // base64
	kindText        // bytes that are text
	kindRaw         // bytes that are JSON
	kindBool
	kindInt
	kindDouble
	kindEnum
	kindMessage
)

// An enum is how the values of an enum are written.
type enum struct {
	names   map[protoreflect.EnumNumber]string
	numbers map[string]protoreflect.EnumNumber
	// list names all values, for errors.
	list string
}

// planOf returns the plan for m, or nil if m is not a message of the contract.
func planOf(m proto.Message) *plan { return plans()[m.ProtoReflect().Descriptor()] }

// plans returns the plans for all messages of the contract. Options that make no sense panic here: they are a mistake in a
// .proto file, which any test finds.
var plans = sync.OnceValue(func() map[protoreflect.MessageDescriptor]*plan {
	all := map[protoreflect.MessageDescriptor]*plan{}
	for _, file := range []protoreflect.FileDescriptor{
		pb.File_mcpbridge_v1_service_proto, pb.File_mcpbridge_v1_common_proto, pb.File_mcpbridge_v1_tool_proto,
		pb.File_mcpbridge_v1_input_proto, pb.File_mcpbridge_v1_capability_proto, pb.File_mcpbridge_v1_error_proto,
	} {
		for i := range file.Messages().Len() {
			newPlan(file.Messages().Get(i), all)
		}
	}
	return all
})

// newPlan returns the plan for a message. It makes it, and the plans it needs, if they are not among all yet.
func newPlan(md protoreflect.MessageDescriptor, all map[protoreflect.MessageDescriptor]*plan) *plan {
	if p := all[md]; p != nil {
		return p
	}
	opts, _ := proto.GetExtension(md.Options(), pb.E_JsonMessage).(*pb.JsonMessage)
	p := &plan{members: map[string]*field{}, resultType: opts.GetResultType(), hop: hopMembers[md.FullName()], down: downs[md.FullName()]}
	p.request = strings.HasSuffix(string(md.Name()), "Request")
	all[md] = p // before the messages inside: some of them hold the one they are in
	if opts.GetTag() != "" || opts.GetUntagged() {
		p.union = newUnion(md, opts, all)
		return p
	}
	p.add(md, nil, all)
	return p
}

// add adds the fields of a message to the plan: of the plan's own, or of one that is inlined by the field via.
func (p *plan) add(md protoreflect.MessageDescriptor, via protoreflect.FieldDescriptor, all map[protoreflect.MessageDescriptor]*plan) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		opts := optionsOf(fd)
		switch {
		case opts.GetInternal():
		case opts.GetExtra():
			p.extra = fd
		case opts.GetInline():
			p.add(fd.Message(), fd, all)
		default:
			f := newField(fd, opts, all)
			f.via = via
			f.bit = 1 << len(p.fields)
			if len(p.fields) == 64 || p.members[f.name] != nil {
				panic(fmt.Sprintf("%s: member %q is there already, or one too many", fd.FullName(), f.name))
			}
			if f.always && !fd.IsList() {
				p.required |= f.bit
			}
			p.fields = append(p.fields, f)
			p.members[f.name] = f
		}
	}
}

func newUnion(md protoreflect.MessageDescriptor, opts *pb.JsonMessage, all map[protoreflect.MessageDescriptor]*plan) *union {
	u := &union{
		oneof: md.Oneofs().Get(0), tag: opts.GetTag(), content: opts.GetContent(), names: map[string]*field{},
		tagSince: revision(md, opts.GetTagSince()),
	}
	for i := range u.oneof.Fields().Len() {
		fd := u.oneof.Fields().Get(i)
		if optionsOf(fd).GetInternal() {
			continue
		}
		f := newField(fd, optionsOf(fd), all)
		f.when = optionsOf(fd).GetWhen()
		if u.tag != "" {
			f.head = quote(u.tag) + ":" + quote(f.name)
		}
		u.fields = append(u.fields, f)
		u.names[f.name] = f
	}
	u.missing = u.names[opts.GetTagDefault()]
	return u
}

func newField(fd protoreflect.FieldDescriptor, opts *pb.JsonField, all map[protoreflect.MessageDescriptor]*plan) *field {
	f := &field{
		fd: fd, name: fd.JSONName(), fallback: opts.GetFallback(), nullable: opts.GetNullable(), single: opts.GetSingle(),
		since: revision(fd, opts.GetSince()), until: revision(fd, opts.GetUntil()),
	}
	if opts.GetName() != "" {
		f.name = opts.GetName()
	}
	f.key = quote(f.name) + ":"
	value := fd
	if fd.IsMap() {
		value = fd.MapValue()
	}
	switch value.Kind() {
	case protoreflect.StringKind:
		f.kind = kindString
	case protoreflect.BytesKind:
		switch {
		case opts.GetRaw():
			f.kind = kindRaw
		case opts.GetText():
			f.kind = kindText
		default:
			f.kind = kindBytes
		}
	case protoreflect.BoolKind:
		f.kind = kindBool
	case protoreflect.Int64Kind:
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
		// Only messages that never are JSON have such fields. A field that could not be read would panic there.
	}
	scalar := f.kind != kindMessage && f.kind != kindRaw && !fd.IsList() && !fd.IsMap() && !fd.HasPresence()
	f.always = scalar || opts.GetRequired() && f.kind != kindRaw
	if oneof := fd.ContainingOneof(); oneof != nil && !oneof.IsSynthetic() {
		f.alone = oneof
	}
	return f
}

// newEnum returns how the values of an enum are written: LOG_LEVEL_DEBUG of LogLevel as "debug".
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

func optionsOf(fd protoreflect.FieldDescriptor) *pb.JsonField {
	opts, _ := proto.GetExtension(fd.Options(), pb.E_Json).(*pb.JsonField)
	return opts
}

func revision(d protoreflect.Descriptor, name string) bridge.Revision {
	rev, ok := bridge.ParseRevision(name)
	if !ok && name != "" {
		panic(fmt.Sprintf("%s: no revision %q", d.FullName(), name))
	}
	return rev
}

func quote(s string) string { return string(rawjson.AppendString(nil, s)) }
