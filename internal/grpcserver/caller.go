package grpcserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/limits"
	"github.com/mcpbridge/mcpbridge/internal/mcpjson"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// check validates a request, and replaces its unverified parts, so that Handlers can rely on them. It drops the
// identity that the request claims.
func check(call *bridge.Call, who *pb.Principal, l *limits.Limits) error {
	m := call.Request.ProtoReflect()
	cc := call.Request.GetContext()
	if cc == nil {
		cc = &pb.CallContext{}
		m.Set(m.Descriptor().Fields().ByName("context"), protoreflect.ValueOfMessage(cc.ProtoReflect()))
	}
	rev, ok := bridge.ParseRevision(cc.GetProtocolVersion())
	switch {
	case cc.GetProtocolVersion() == "":
		cc.ProtocolVersion, rev = newest.String(), newest
	case !ok:
		return bridge.Errorf(codes.InvalidArgument,
			"context.protocol_version %q is not a revision of MCP: leave it empty for %s, or use one of %s",
			rawjson.Shorten(cc.GetProtocolVersion()), newest, revisions)
	}
	if _, ok := pb.LogLevel_name[int32(cc.GetLogLevel())]; !ok {
		return bridge.Errorf(codes.InvalidArgument, "context.log_level %d is not a log level", cc.GetLogLevel())
	}
	cc.Verified = nil
	if err := checkJSON(m, l, ""); err != nil {
		return bridge.Errorf(codes.InvalidArgument, "%s: %w", call.Method.Name, err)
	}
	if err := mcpjson.ReadRaw(call.Request, l); err != nil {
		return bridge.Errorf(codes.InvalidArgument, "%s: %w", call.Method.Name, err)
	}
	cc.Verified = bridge.Verified(rev, who, nil)
	cc.Meta = bridge.WithoutForgedMeta(cc.GetMeta(), false) // gRPC clients send the same in the fields of the context
	if l, ok := call.Request.(*pb.ListenRequest); ok {
		f := l.GetNotifications()
		return feed.CheckSubscriptions(slices.Concat(f.GetResourceSubscriptions(), f.GetTaskIds()))
	}
	return nil
}

var newest, revisions = func() (bridge.Revision, string) {
	var names []string
	all := bridge.Revisions()
	for _, r := range all {
		names = append(names, r.String())
	}
	return all[len(all)-1], strings.Join(names, ", ")
}()

// principal returns the authenticated principal, or nil without authentication.
func (s *Server) principal(ctx context.Context) (*pb.Principal, error) {
	if s.o.Principal != nil {
		md, _ := metadata.FromIncomingContext(ctx)
		return s.o.Principal(ctx, md)
	}
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return bridge.CertificatePrincipal(&info.State), nil
		}
	}
	return nil, nil //nolint:nilnil // there is no authentication
}

// accessExpiry returns the time at which a caller's access ends, or zero if it does not end.
func (s *Server) accessExpiry(p *pb.Principal) time.Time {
	if s.o.AccessExpiry == nil || p == nil {
		return time.Time{}
	}
	return s.o.AccessExpiry(p)
}

// A leaf is the kind of JSON in a field.
type leaf uint8

const (
	noLeaf leaf = iota
	anyValue
	anObject
	further // the message contains leaves
)

// leaves are the fields of requests with JSON text, or with messages that contain such fields.
var leaves = func() map[protoreflect.FieldDescriptor]leaf {
	found := map[protoreflect.FieldDescriptor]leaf{}
	seen := map[protoreflect.MessageDescriptor]bool{}
	var walk func(md protoreflect.MessageDescriptor)
	walk = func(md protoreflect.MessageDescriptor) {
		if seen[md] {
			return
		}
		seen[md] = true
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			value := fd
			if fd.IsMap() {
				value = fd.MapValue()
			}
			holds, object := mcpjson.HoldsJSON(fd)
			switch {
			case value.Message() != nil:
				found[fd] = further
				walk(value.Message())
			case object:
				found[fd] = anObject
			case holds:
				found[fd] = anyValue
			}
		}
	}
	for _, m := range bridge.Methods() {
		walk(m.NewRequest(nil).ProtoReflect().Descriptor())
	}
	return found
}()

// checkJSON validates the JSON text in a message. Backends and other servers may rely on text that every parser reads
// in the same way, as with the MCP front.
func checkJSON(m protoreflect.Message, l *limits.Limits, path string) (err error) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		kind := leaves[fd]
		if kind == noLeaf {
			return true
		}
		at := path + string(fd.Name())
		switch {
		case kind != further:
			err = checkText(textOf(fd, v), l, kind, at)
		case fd.IsMap():
			v.Map().Range(func(key protoreflect.MapKey, entry protoreflect.Value) bool {
				err = checkJSON(entry.Message(), l, at+"["+rawjson.Shorten(key.String())+"].")
				return err == nil
			})
		case fd.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = checkJSON(v.List().Get(i).Message(), l, fmt.Sprintf("%s[%d].", at, i))
			}
		default:
			err = checkJSON(v.Message(), l, at+".")
		}
		return err == nil
	})
	return err
}

// textOf returns the JSON text of a field.
func textOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	if fd.Kind() == protoreflect.BytesKind {
		return v.Bytes()
	}
	return rawjson.AsBytes(v.String())
}

func checkText(text []byte, l *limits.Limits, kind leaf, at string) error {
	if len(text) == 0 {
		return nil
	}
	if err := rawjson.CheckWithin(text, l); err != nil {
		return fmt.Errorf("%s is not strict JSON: %w", at, err)
	}
	if kind == anObject && !rawjson.IsObject(text) {
		return fmt.Errorf("%s is not a JSON object", at)
	}
	return nil
}
