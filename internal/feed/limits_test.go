package feed_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
	"github.com/mcpbridge/mcpbridge/internal/limits"
)

func TestSubscriptionsAtTheirLimit(t *testing.T) {
	for over := -1; over <= 1; over++ {
		var many, long []string
		for i := range limits.Subscriptions + over {
			many = append(many, strconv.Itoa(i))
		}
		for i := range limits.URIs / limits.URI {
			long = append(long, strings.Repeat(strconv.Itoa(i), limits.URI))
		}
		long[0] = long[0][:limits.URI/2]
		long = append(long, strings.Repeat("x", limits.URI/2+over))
		for what, c := range map[string]struct {
			uris []string
			want codes.Code
		}{
			"resources":      {many, codes.ResourceExhausted},
			"bytes of a URI": {[]string{strings.Repeat("x", limits.URI+over)}, codes.InvalidArgument},
			"bytes of all":   {long, codes.ResourceExhausted},
		} {
			err := feed.CheckSubscriptions(c.uris)
			if (err != nil) != (over > 0) || err != nil &&
				(bridge.AsError(err).Code != c.want ||
					bridge.AsError(err).Redacted().Reason == "BACKEND_FAILED") {
				t.Errorf("%+d %s: got error %v, want one above the limit, with code %s", over, what, err, c.want)
			}
		}
	}
}
