package feed

import (
	"maps"
	"slices"

	"github.com/mcpbridge/mcpbridge/internal/rawjson"
	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

// A demand counts how many subscribers want what, so that one more or less costs the same however many there are.
type demand struct {
	count      map[key]int
	uris, size int // the URIs of count, and their bytes in JSON
}

// add counts a filter n times more.
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

// keys returns what is wanted.
func (d *demand) keys() []key { return sorted(slices.Collect(maps.Keys(d.count))) }

// is reports whether keys, which a demand has returned, are what is wanted.
func (d *demand) is(keys []key) bool {
	return len(keys) == len(d.count) && !slices.ContainsFunc(keys, func(k key) bool { return d.count[k] == 0 })
}
