package feed_test

import (
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/feed"
)

func TestSubscriptionsAtTheirLimit(t *testing.T) {
	for over := -1; over <= 1; over++ {
		var many, long []string
		for i := range feed.MaxSubscriptions + over {
			many = append(many, strconv.Itoa(i))
		}
		for i := range feed.MaxURIs / feed.MaxURI {
			long = append(long, strings.Repeat(strconv.Itoa(i), feed.MaxURI))
		}
		long[0] = long[0][:feed.MaxURI/2]
		long = append(long, strings.Repeat("x", feed.MaxURI/2+over))
		for what, c := range map[string]struct {
			uris []string
			want codes.Code
		}{
			"resources":      {many, codes.ResourceExhausted},
			"bytes of a URI": {[]string{strings.Repeat("x", feed.MaxURI+over)}, codes.InvalidArgument},
			"bytes of all":   {long, codes.ResourceExhausted},
		} {
			err := feed.CheckSubscriptions(c.uris)
			if (err != nil) != (over > 0) || err != nil &&
				(bridge.AsError(err).Code != c.want ||
					bridge.AsError(err).Redacted().Failure.GetReason() == "BACKEND_FAILED") {
				t.Errorf("%+d %s: got error %v, want one above the limit, with code %s", over, what, err, c.want)
			}
		}
	}
}
