package mcpjson

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// ReadRaw replaces the raw JSON objects in the unions of m that are of a known type by the fields of that type, so that
// they are converted to older revisions like other values of that type. Afterwards, raw contains only objects of
// unknown types. The JSON text is validated within the limits, because it comes from backends and gRPC clients.
func ReadRaw(m proto.Message, l *limits.Limits) error {
	p := planOf(m)
	if p == nil || !p.open {
		return nil
	}
	return readRaw(m.ProtoReflect(), p, l)
}

func readRaw(m protoreflect.Message, p *plan, l *limits.Limits) error {
	if p.union != nil {
		switch f := p.union.set(m); f {
		case nil:
			return nil
		case p.union.raw:
			return p.union.readRaw(m, p, l)
		default:
			return readRawIn(m, f, l)
		}
	}
	for _, f := range p.fields {
		from := m
		if f.via != nil {
			from = m.Get(f.via).Message()
		}
		if err := readRawIn(from, f, l); err != nil {
			return err
		}
	}
	return nil
}

// readRawIn reads the raw objects in a field of m.
func readRawIn(m protoreflect.Message, f *field, l *limits.Limits) (err error) {
	if f.message == nil || !f.message.open || !m.Has(f.fd) {
		return nil
	}
	v := m.Get(f.fd)
	switch {
	case f.fd.IsMap():
		for k, v := range v.Map().Range {
			if err := readRaw(v.Message(), f.message, l); err != nil {
				return at(at(err, entry(k.String())), f.name)
			}
		}
		return nil
	case f.fd.IsList():
		for i := range v.List().Len() {
			if err := readRaw(v.List().Get(i).Message(), f.message, l); err != nil {
				return at(at(err, index(i)), f.name)
			}
		}
		return nil
	}
	if err := readRaw(v.Message(), f.message, l); err != nil {
		return at(err, f.name)
	}
	return nil
}

func (u *union) readRaw(m protoreflect.Message, p *plan, l *limits.Limits) error {
	text := rawjson.AsBytes(m.Get(u.raw.fd).String())
	if !rawjson.IsObject(text) {
		return errors.New("must be a JSON object, not " + rawjson.Shorten(string(text)))
	}
	if err := rawjson.CheckWithin(text, l); err != nil {
		return fmt.Errorf("is not strict JSON: %w", err)
	}
	d := decoder{rev: bridge.Rev20260728}
	return d.message(text, m, p, "")
}
