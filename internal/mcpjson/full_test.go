package mcpjson

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// full fills every field of m that has a JSON member, and returns m. Lists get two elements.
func full(m proto.Message) proto.Message {
	fill(m.ProtoReflect(), 0)
	return m
}

func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if rowOf(fd).role == internal {
			continue
		}
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() && m.WhichOneof(o) != nil {
			continue // each oneof gets its first alternative
		}
		if depth > 6 && fd.Message() != nil && fd.IsList() {
			continue
		}
		switch {
		case fd.IsMap():
			to := m.Mutable(fd).Map()
			for _, k := range []string{"a", "b"} {
				v := to.NewValue()
				if fd.MapValue().Message() != nil {
					fill(v.Message(), depth+1)
				} else {
					v = some(fd.MapValue())
				}
				to.Set(protoreflect.ValueOfString(k).MapKey(), v)
			}
		case fd.IsList():
			to := m.Mutable(fd).List()
			for i := range 2 {
				v := to.NewElement()
				if fd.Message() != nil {
					fill(v.Message(), depth+1)
					if key := fd.Message().Fields().ByName("key"); key != nil {
						// not in sorted order
						v.Message().Set(key, protoreflect.ValueOfString([]string{"b", "a"}[i]))
					}
				} else {
					v = some(fd)
				}
				to.Append(v)
			}
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), depth+1)
		default:
			m.Set(fd, some(fd))
		}
	}
}

// some returns a valid value for a field.
func some(fd protoreflect.FieldDescriptor) protoreflect.Value {
	r := rowOf(fd)
	switch fd.Kind() {
	case protoreflect.StringKind:
		switch {
		case r.role == unknownMembers:
			return protoreflect.ValueOfString("{\"x-unknown\":\n{\"n\":9007199254740993}}")
		case r.fallback != "" && r.json == anObject:
			return protoreflect.ValueOfString(`{"type":"object","properties":{"x":{"type":"string"}}}`)
		case fd.JSONName() == "outputSchema":
			return protoreflect.ValueOfString(`{"type":"object","properties":{"x":{"type":"string"}}}`)
		case fd.FullName() == "mcpbridge.v1.ElicitResult.content":
			return protoreflect.ValueOfString(`{"x":"y"}`)
		case r.json != notJSON:
			return protoreflect.ValueOfString("{\"x\":{\"n\":\r\n150}}")
		}
		switch fd.JSONName() {
		case "src", "uri", "url", "websiteUrl":
			return protoreflect.ValueOfString("https://example.com/x")
		case "uriTemplate":
			return protoreflect.ValueOfString("file:///{path}")
		case "mimeType":
			return protoreflect.ValueOfString("text/plain")
		case "lastModified":
			return protoreflect.ValueOfString("2025-01-12T15:00:58Z")
		case "theme":
			return protoreflect.ValueOfString("dark")
		case "includeContext":
			return protoreflect.ValueOfString("none")
		case "taskSupport":
			return protoreflect.ValueOfString("optional")
		case "mode":
			return protoreflect.ValueOfString("auto")
		case "role", "audience":
			return protoreflect.ValueOfString("user")
		case "cacheScope":
			return protoreflect.ValueOfString("public")
		case "action":
			return protoreflect.ValueOfString("accept")
		}
		return protoreflect.ValueOfString("some \"text\"\n\u00e9\U0001F600")
	case protoreflect.BytesKind:
		if r.json != notJSON {
			return protoreflect.ValueOfBytes([]byte("{\"x\":{\"n\":\r\n150}}"))
		}
		return protoreflect.ValueOfBytes([]byte("some bytes"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(1 << 60)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0.25)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(1).Number())
	}
	panic("no value for " + string(fd.FullName()))
}
