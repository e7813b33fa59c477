package verify

import (
	"fmt"
	"slices"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
)

func checkInputRequests(t *trial) {
	var numbers []int
	for range 2 {
		var required [][]string
		rounds, err := t.callRounds(t.ctx, "survey", `{}`, func(message string, q *pb.InputRequest) *pb.InputResponse {
			switch message {
			case "What is your name?":
				return fill(q, "Ada")
			case "How old are you?":
				return fill(q, 36)
			case "Ada is 36, right?":
				return fill(q, true)
			}
			return elicitResponse("cancel", "")
		})
		for _, r := range rounds {
			var messages []string
			for _, q := range r.inputRequired.GetInputRequests() {
				messages = append(messages, q.GetElicit().GetForm().GetMessage())
			}
			slices.Sort(messages)
			required = append(required, messages)
		}
		if err != nil {
			t.failf("after %v: %s", required, errorText(err))
			return
		}
		want := [][]string{{"How old are you?", "What is your name?"}, {"Ada is 36, right?"}, nil}
		if fmt.Sprint(required) != fmt.Sprint(want) {
			t.failf("it requires %v, want %v", required, want)
			return
		}
		got, number := rounds[2].text(), 0
		if _, err := fmt.Sscanf(got, "Ada is 36: true, %d", &number); err != nil {
			t.failf("survey returns %q, want %q and a number", got, "Ada is 36: true, ")
			return
		}
		numbers = append(numbers, number)
	}
	if numbers[1] != numbers[0]+1 {
		t.defect(Defect{
			What: fmt.Sprintf("the numbers of two surveys are %d and %d: a step that must run once ran in every round",
				numbers[0], numbers[1]),
			Fix: "keep the result of a step that must run once in the state",
		})
	}
}

func checkInputResponses(t *trial) {
	noForms := func(r *pb.CallToolRequest) { r.Context.ClientCapabilities.Elicitation = nil }
	for _, try := range []struct {
		client, want string // the client ...
		reply        func(*pb.InputRequest) *pb.InputResponse
		with         []option
	}{
		{client: "accepts", want: "accepted: Ada", reply: func(q *pb.InputRequest) *pb.InputResponse {
			return fill(q, "Ada")
		}},
		{client: "declines", want: "declined", reply: func(*pb.InputRequest) *pb.InputResponse {
			return elicitResponse("decline", "")
		}},
		{client: "cancels", want: "cancelled", reply: func(*pb.InputRequest) *pb.InputResponse {
			return elicitResponse("cancel", "")
		}},
		{client: "does not respond in time", want: "no answer", reply: func(*pb.InputRequest) *pb.InputResponse {
			return errorResponse(pb.InputError_REASON_NO_ANSWER, "too late")
		}},
		{client: "responds with an error", want: "refused", reply: func(*pb.InputRequest) *pb.InputResponse {
			return errorResponse(pb.InputError_REASON_REFUSED, "no")
		}},
		{client: "responds with unsupported", want: "unsupported", reply: func(*pb.InputRequest) *pb.InputResponse {
			return errorResponse(pb.InputError_REASON_UNSUPPORTED, "no forms")
		}},
		{client: "responds with another type", want: "invalid", reply: func(q *pb.InputRequest) *pb.InputResponse {
			return fill(q, 7)
		}},
		{client: "does not support forms", want: "unsupported", reply: func(*pb.InputRequest) *pb.InputResponse {
			return elicitResponse("cancel", "")
		}, with: []option{noForms}},
	} {
		reply := func(_ string, q *pb.InputRequest) *pb.InputResponse { return try.reply(q) }
		rounds, err := t.callRounds(t.ctx, "tell", `{}`, reply, try.with...)
		if err != nil {
			t.failf("with a client that %s: %s", try.client, errorText(err))
			continue
		}
		if try.with != nil && len(rounds) != 1 {
			t.failf("it requires input of a client that %s", try.client)
		}
		if got := rounds[len(rounds)-1].text(); got != try.want {
			t.failf("with a client that %s, it returns %q, want %q", try.client, clip(got), try.want)
		}
	}
}
