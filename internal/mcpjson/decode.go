package mcpjson

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

type decoder struct {
	rev bridge.Revision
}

// message fills m. tag is the member that selected m in a union.
func (d *decoder) message(data []byte, m protoreflect.Message, p *plan, tag string) error {
	if !rawjson.IsObject(data) {
		return typeError("an object", data)
	}
	if p.union != nil {
		return d.union(data, m, p.union)
	}
	var seen uint64
	var unknown []byte
	for name, value := range rawjson.Members(data) {
		f := p.members[string(name)]
		if f == nil {
			if string(name) == tag || slices.Contains(p.hop, string(name)) {
				continue
			}
			if p.resultType != "" && string(name) == "resultType" && d.rev.HasResultType() {
				if s, _ := rawjson.Bytes(value); string(s) != p.resultType {
					return at(typeError(quote(p.resultType), value), "resultType")
				}
				continue
			}
			if own := p.caseConflict(string(name), tag); own != "" {
				if p.request {
					return fmt.Errorf("member %s must be written %s", rawjson.Shorten(quote(string(name))), quote(own))
				}
				continue // dropped, because another parser could take it for own
			}
			unknown = appendUnknown(unknown, name, value)
			continue
		}
		if f.json != anyValue && rawjson.IsNull(value) {
			continue
		}
		if err := d.field(value, f.mutableIn(m), f); err != nil {
			if f.definedIn(d.rev) {
				return at(err, f.name)
			}
			unknown = appendUnknown(unknown, name, value)
			continue
		}
		seen |= f.bit
	}
	if p.required&^seen != 0 {
		for _, f := range p.fields {
			if p.required&^seen&f.bit != 0 && f.definedIn(d.rev) {
				return fmt.Errorf("member %q is missing", f.name)
			}
		}
	}
	if unknown != nil && p.extra != nil {
		to := p.extra.mutableIn(m)
		to.Set(p.extra.fd, protoreflect.ValueOfString(rawjson.AsString(append(unknown, '}'))))
	}
	return nil
}

// appendUnknown appends a member to the object of unknown members.
func appendUnknown(dst, name, value []byte) []byte {
	if dst == nil {
		dst = append(dst, '{')
	} else {
		dst = append(dst, ',')
	}
	dst = append(rawjson.AppendString(dst, string(name)), ':')
	return append(dst, value...)
}

// union sets the field of a union.
func (d *decoder) union(data []byte, m protoreflect.Message, u *union) error {
	f, err := u.choose(data)
	if err != nil {
		return err
	}
	if f == u.raw {
		m.Set(f.fd, protoreflect.ValueOfString(rawjson.AsString(data)))
		return nil
	}
	inner := data
	if u.content != "" {
		if inner = rawjson.Get(data, u.content); inner == nil || rawjson.IsNull(inner) {
			inner = []byte("{}")
		}
	}
	v := m.NewField(f.fd)
	if err := d.message(inner, v.Message(), f.message, u.tag); err != nil {
		if u.content != "" {
			err = at(err, u.content)
		}
		return err
	}
	m.Set(f.fd, v)
	return nil
}

// choose returns the field of the union for a JSON object.
func (u *union) choose(data []byte) (*field, error) {
	if u.tag == "" {
		whens := make([]string, len(u.fields))
		for i, f := range u.fields {
			if rawjson.Get(data, f.when) != nil {
				return f, nil
			}
			whens[i] = strconv.Quote(f.when)
		}
		if u.raw != nil {
			return u.raw, u.checkCase(data)
		}
		return nil, fmt.Errorf("one of the members %s is missing", strings.Join(whens, ", "))
	}
	tag := rawjson.Get(data, u.tag)
	if tag == nil || rawjson.IsNull(tag) {
		if u.missing == nil {
			return nil, fmt.Errorf("member %q is missing", u.tag)
		}
		return u.missing, nil
	}
	name, ok := rawjson.Bytes(tag)
	if !ok {
		return nil, at(typeError("a string", tag), u.tag)
	}
	f := u.values[string(name)]
	if f == nil && u.raw != nil {
		return u.raw, u.checkCase(data)
	}
	if f == nil {
		names := make([]string, len(u.fields))
		for i, f := range u.fields {
			names[i] = f.tagValue
		}
		return nil, at(fmt.Errorf("unknown value %s, known are %s", rawjson.Shorten(tag), strings.Join(names, ", ")),
			u.tag)
	}
	return f, nil
}

// checkCase returns an error if a member of a raw object differs by case only from one that selects a field: another
// parser could confuse them.
func (u *union) checkCase(data []byte) error {
	for name := range rawjson.Members(data) {
		for _, f := range u.fields {
			own := cmp.Or(u.tag, f.when)
			if string(name) != own && strings.EqualFold(string(name), own) {
				return fmt.Errorf("member %s must be written %s", rawjson.Shorten(quote(string(name))), quote(own))
			}
		}
	}
	return nil
}

// field sets a field of m completely, or not at all.
func (d *decoder) field(data []byte, m protoreflect.Message, f *field) error {
	if f.oneof != nil {
		if other := m.WhichOneof(f.oneof); other != nil {
			return fmt.Errorf("cannot be there together with %q", other.JSONName())
		}
	}
	switch {
	case f.fd.IsMap():
		if !rawjson.IsObject(data) {
			return typeError("an object", data)
		}
		v := m.NewField(f.fd)
		for name, value := range rawjson.Members(data) {
			element, err := d.value(value, f, v.Map().NewValue)
			if err != nil {
				return at(err, entry(string(name)))
			}
			v.Map().Set(protoreflect.ValueOfString(string(name)).MapKey(), element)
		}
		m.Set(f.fd, v)
	case f.keyed() != nil:
		if !rawjson.IsObject(data) {
			return typeError("an object", data)
		}
		v := m.NewField(f.fd)
		for name, value := range rawjson.Members(data) {
			element, err := d.value(value, f, v.List().NewElement)
			if err != nil {
				return at(err, entry(string(name)))
			}
			element.Message().Set(f.keyed(), protoreflect.ValueOfString(string(name)))
			v.List().Append(element)
		}
		m.Set(f.fd, v)
	case f.fd.IsList():
		v := m.NewField(f.fd)
		if !rawjson.IsArray(data) {
			if !f.single {
				return typeError("an array", data)
			}
			element, err := d.value(data, f, v.List().NewElement)
			if err != nil {
				return err
			}
			v.List().Append(element)
			m.Set(f.fd, v)
			return nil
		}
		i := 0
		for value := range rawjson.Elements(data) {
			element, err := d.value(value, f, v.List().NewElement)
			if err != nil {
				return at(err, index(i))
			}
			v.List().Append(element)
			i++
		}
		m.Set(f.fd, v)
	default:
		v, err := d.value(data, f, func() protoreflect.Value { return m.NewField(f.fd) })
		if err != nil {
			return err
		}
		m.Set(f.fd, v)
	}
	return nil
}

// value reads a single value. empty returns an empty message.
func (d *decoder) value(data []byte, f *field, empty func() protoreflect.Value) (protoreflect.Value, error) {
	switch f.kind {
	case kindMessage:
		v := empty()
		return v, d.message(data, v.Message(), f.message, "")
	case kindString:
		s, ok := rawjson.String(data)
		if !ok {
			return protoreflect.Value{}, typeError("a string", data)
		}
		return protoreflect.ValueOfString(s), nil
	case kindText:
		b, ok := rawjson.Bytes(data)
		if !ok {
			return protoreflect.Value{}, typeError("a string", data)
		}
		return protoreflect.ValueOfBytes(b), nil
	case kindBytes:
		return readBase64(data)
	case kindRaw:
		if f.json == anObject && !rawjson.IsObject(data) {
			return protoreflect.Value{}, typeError("an object", data)
		}
		if f.fd.Kind() == protoreflect.BytesKind {
			return protoreflect.ValueOfBytes(data), nil
		}
		return protoreflect.ValueOfString(rawjson.AsString(data)), nil
	case kindBool:
		switch string(data) {
		case "true":
			return protoreflect.ValueOfBool(true), nil
		case "false":
			return protoreflect.ValueOfBool(false), nil
		}
		return protoreflect.Value{}, typeError("true or false", data)
	case kindInt:
		n, err := readInt(data)
		switch {
		case f.fd.Kind() != protoreflect.Int32Kind:
			return protoreflect.ValueOfInt64(n), err
		case err == nil && int64(int32(n)) != n:
			err = fmt.Errorf("%s is out of range", rawjson.Shorten(data))
		}
		return protoreflect.ValueOfInt32(int32(n)), err
	case kindDouble:
		if !isNumber(data) {
			return protoreflect.Value{}, typeError("a number", data)
		}
		x, err := strconv.ParseFloat(string(data), 64)
		if err != nil {
			return protoreflect.Value{}, fmt.Errorf("%s is out of range", rawjson.Shorten(data))
		}
		return protoreflect.ValueOfFloat64(x), nil
	case kindEnum:
		name, ok := rawjson.Bytes(data)
		if !ok {
			return protoreflect.Value{}, typeError("a string", data)
		}
		n, ok := f.enum.numbers[string(name)]
		if !ok {
			return protoreflect.Value{},
				fmt.Errorf("unknown value %s, known are %s", rawjson.Shorten(data), f.enum.list)
		}
		return protoreflect.ValueOfEnum(n), nil
	}
	return protoreflect.Value{}, errors.New("has no form in JSON")
}

// readBase64 reads standard base64 (RFC 4648, section 4).
func readBase64(data []byte) (protoreflect.Value, error) {
	s, ok := rawjson.Bytes(data)
	if !ok {
		return protoreflect.Value{}, typeError("a string", data)
	}
	b, err := bridge.DecodeBase64(base64.StdEncoding, s)
	if err != nil {
		return protoreflect.Value{}, typeError("base64", data)
	}
	return protoreflect.ValueOfBytes(b), nil
}

// readInt reads an integer in any notation: 100, 100.0 and 1e2 are the same number to a sender without integers.
func readInt(data []byte) (int64, error) {
	if n, err := strconv.ParseInt(string(data), 10, 64); err == nil {
		return n, nil
	}
	if !isNumber(data) {
		return 0, typeError("an integer", data)
	}
	digits, sign := string(data), ""
	if digits[0] == '-' {
		digits, sign = digits[1:], "-"
	}
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		exponent, _ = strconv.Atoi(digits[i+1:]) // the largest int if it does not fit
		digits = digits[:i]
	}
	exponent = min(max(exponent, -1<<30), 1<<30)
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits, exponent = whole+fraction, exponent-len(fraction)
	}
	digits = strings.TrimLeft(digits, "0")
	for strings.HasSuffix(digits, "0") {
		digits, exponent = digits[:len(digits)-1], exponent+1
	}
	const most = len("9223372036854775807")
	switch {
	case digits == "":
		return 0, nil
	case exponent < 0:
		return 0, typeError("an integer", data)
	case len(digits)+exponent <= most:
		if n, err := strconv.ParseInt(sign+digits+strings.Repeat("0", exponent), 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%s is out of range", rawjson.Shorten(data))
}

// isNumber reports whether a JSON value is a number.
func isNumber(data []byte) bool {
	return len(data) > 0 && (data[0] == '-' || '0' <= data[0] && data[0] <= '9')
}

func typeError(want string, data []byte) error {
	return fmt.Errorf("must be %s, not %s", want, rawjson.Shorten(data))
}
