package feed

import (
	"maps"
	"slices"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A demand counts the subscribers of each key, so that the cost of an update does not depend on their number.
type demand struct {
	count      map[key]int
	uris, size int // the number of URIs in count, and their size in JSON
}

// add adds n subscribers with a filter.
func (d *demand) add(f *pb.SubscriptionFilter, n int) {
	for _, k := range keysOf(f, none) {
		before := d.count[k]
		d.count[k] += n
		if before+n == 0 {
			delete(d.count, k)
		}
		if k.kind == resource && (before == 0 || before+n == 0) {
			d.uris += n
			d.size += n * (len(rawjson.AppendString(nil, k.of)) - len(`""`))
		}
	}
}

// keys returns the keys with subscribers.
func (d *demand) keys() []key { return sorted(slices.Collect(maps.Keys(d.count))) }

// is reports whether keys, a result of an earlier call of keys, are still the keys with subscribers.
func (d *demand) is(keys []key) bool {
	return len(keys) == len(d.count) && !slices.ContainsFunc(keys, func(k key) bool { return d.count[k] == 0 })
}
