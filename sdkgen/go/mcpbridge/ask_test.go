package mcpbridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/mcpbridge/mcpbridge/sdkgen/go/gen/mcpbridge/v1"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridge"
	"github.com/mcpbridge/mcpbridge/sdkgen/go/mcpbridgetest"
)

type colour struct {
	Colour string `json:"colour" schema:"enum=red|green"`
}

// does adds a tool without arguments.
func does(app *mcpbridge.App, name string, fn func(ctx context.Context) (string, error)) {
	mcpbridge.Tool(app, name, "Does it.", func(ctx context.Context, _ struct{}) (string, error) { return fn(ctx) })
}

func asksColour(fn func(mcpbridge.Answer[colour], error) (string, error)) *mcpbridge.App {
	app := mcpbridge.New("test", "1")
	does(app, "paint", func(ctx context.Context) (string, error) {
		return fn(mcpbridge.Elicit[colour](ctx, "Which colour?"))
	})
	return app
}

func TestQuestionEndsTheRoundAndItsAnswerReturns(t *testing.T) {
	for name, dealsWithIt := range map[string]func(error) (string, error){
		"returned": func(err error) (string, error) { return "", err },
		"wrapped":  func(err error) (string, error) { return "", fmt.Errorf("painting: %w", err) },
		"replaced": func(error) (string, error) { return "", errors.New("it broke") },
		"dropped":  func(error) (string, error) { return "swallowed", nil },
		"panicked": func(err error) (string, error) { panic(err) },
		"exact":    func(error) (string, error) { return "", &mcpbridge.Error{Code: -1} },
	} {
		t.Run(name, func(t *testing.T) {
			app := asksColour(func(a mcpbridge.Answer[colour], err error) (string, error) {
				if err != nil {
					if !errors.Is(err, mcpbridge.Pending) {
						t.Errorf("got %v", err)
					}
					return dealsWithIt(err)
				}
				return a.Data.Colour, nil
			})
			called := mcpbridgetest.Call(t, app, "paint", nil, mcpbridgetest.WithAnswers(colour{"red"}))
			if called.Text() != "red" || called.Rounds != 2 {
				t.Errorf("got %q (%v) after %d rounds", called.Text(), called.Err, called.Rounds)
			}
			form := called.Asked[0].GetElicit().GetForm()
			const schema = `{"type":"object","properties":{"colour":{"type":"string","enum":["red","green"]}},"required":["colour"]}`
			if form.GetMessage() != "Which colour?" ||
				canonical(t, []byte(form.GetRequestedSchema())) != canonical(t, []byte(schema)) {
				t.Errorf("asked %v", form)
			}
		})
	}
}

func TestManyRoundsAndOnce(t *testing.T) {
	app := mcpbridge.New("test", "1")
	charged := 0
	does(app, "order", func(ctx context.Context) (string, error) {
		size, err := mcpbridge.Elicit[int](ctx, "Size?")
		if err != nil {
			return "", err
		}
		receipt, err := mcpbridge.Once(ctx, "charge", func(context.Context) (map[string]int, error) {
			charged++
			return map[string]int{"size": size.Data}, nil
		})
		if err != nil {
			return "", err
		}
		first, err := mcpbridge.Elicit[string](ctx, "Name?")
		if err != nil {
			return "", err
		}
		second, err := mcpbridge.Elicit[string](ctx, "Name?") // the same question again is another
		if err != nil {
			return "", err
		}
		return fmt.Sprint(size.Data, receipt, first.Data, second.Data), nil
	})
	called := mcpbridgetest.Call(t, app, "order", nil, mcpbridgetest.WithAnswers(7, "Ada", "Bob"))
	if got := called.Text(); got != "7 map[size:7]AdaBob" && got != "7 map[size:7] Ada Bob" || charged != 1 ||
		called.Rounds != 4 {
		t.Errorf("got %s after %d rounds, charged %d times", got, called.Rounds, charged)
	}
}

func TestRepeatedEventsAreLoggedOnce(t *testing.T) {
	askUser := func(ctx context.Context) error {
		_, err := mcpbridge.Elicit[bool](ctx, "Sure?")
		return err
	}
	report := func(ctx context.Context) error {
		mcpbridge.Progress(ctx, 1, 1)
		return nil
	}
	write := func(ctx context.Context) error {
		mcpbridge.Log(ctx, mcpbridge.LevelInfo, "begun")
		return nil
	}
	reportOnce := func(ctx context.Context) error {
		_, err := mcpbridge.Once(ctx, "report", func(ctx context.Context) (int, error) { return 0, report(ctx) })
		return err
	}
	for _, c := range []struct {
		name  string
		steps []func(context.Context) error
		want  int
	}{
		{"progress before the question", []func(context.Context) error{report, askUser}, 1},
		{"log message before the question", []func(context.Context) error{write, askUser}, 1},
		{"progress between two questions", []func(context.Context) error{askUser, report, askUser}, 1},
		{"progress after the question", []func(context.Context) error{askUser, report}, 0},
		{"progress in Once", []func(context.Context) error{reportOnce, askUser}, 0},
		{"no question", []func(context.Context) error{report, write}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			defer slog.SetDefault(slog.Default())
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			app := mcpbridge.New("test", "1")
			does(app, "works", func(ctx context.Context) (string, error) {
				for _, step := range c.steps {
					if err := step(ctx); err != nil {
						return "", err
					}
				}
				return "done", nil
			})
			for range 2 {
				if called := mcpbridgetest.Call(t, app, "works", nil,
					mcpbridgetest.WithAnswers(true, true)); called.Text() != "done" {
					t.Fatalf("got %v, want done", called.Result)
				}
			}
			if got := strings.Count(log.String(), "before an answered question"); got != c.want {
				t.Errorf("got %d warnings, want %d:\n%s", got, c.want, log.String())
			}
		})
	}
}

func TestFailedStepIsNotRemembered(t *testing.T) {
	app := mcpbridge.New("test", "1")
	tries := 0
	does(app, "try", func(ctx context.Context) (string, error) {
		_, err := mcpbridge.Once(ctx, "step", func(ctx context.Context) (int, error) {
			if tries++; tries == 1 {
				return 0, errors.New("not yet")
			}
			_, err := mcpbridge.Elicit[bool](ctx, "Sure?")
			return tries, err
		})
		if err != nil && tries == 1 {
			_, err = mcpbridge.Elicit[bool](ctx, "Again?")
		}
		return strconv.Itoa(tries), err
	})
	if called := mcpbridgetest.Call(t, app, "try", nil, mcpbridgetest.WithAnswers(true, true)); called.Text() != "3" {
		t.Errorf("got %v", called.Result)
	}
}

func TestChangedQuestionIsAskedAgainUnlessItHasAKey(t *testing.T) {
	app := mcpbridge.New("test", "1")
	n := 0
	askUser := func(opts ...mcpbridge.AskOption) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			n++
			a, err := mcpbridge.Elicit[string](ctx, fmt.Sprintf("Pay %d?", min(n, 2)), opts...)
			return a.Data, err
		}
	}
	does(app, "anew", askUser())
	does(app, "same", askUser(mcpbridge.Key("pay")))
	if called := mcpbridgetest.Call(t, app, "anew", nil, mcpbridgetest.WithAnswers("a", "b")); called.Text() != "b" ||
		called.Rounds != 3 {
		t.Errorf("got %q in %d rounds", called.Text(), called.Rounds)
	}
	n = 0
	if called := mcpbridgetest.Call(t, app, "same", nil, mcpbridgetest.WithAnswers("a")); called.Text() != "a" ||
		called.Rounds != 2 {
		t.Errorf("got %q in %d rounds", called.Text(), called.Rounds)
	}
}

func TestSeveralQuestionsInOneRound(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "joined", func(ctx context.Context) (string, error) {
		a, err1 := mcpbridge.Elicit[string](ctx, "A?", mcpbridge.Key("1"))
		roots, err2 := mcpbridge.Roots(ctx, mcpbridge.Key("2"))
		text, err3 := mcpbridge.SampleText(ctx, "B?", 10, mcpbridge.Key("3"))
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		return a.Data + roots[0].GetUri() + text, nil
	})
	does(app, "concurrent", func(ctx context.Context) (string, error) {
		var wg sync.WaitGroup
		answers, errs := make([]string, 8), make([]error, 8)
		for i := range answers {
			wg.Go(func() {
				a, err := mcpbridge.Elicit[string](ctx, "?", mcpbridge.Key(strconv.Itoa(i)))
				answers[i], errs[i] = a.Data, err
			})
		}
		wg.Wait()
		return strings.Join(answers, ""), errors.Join(errs...)
	})
	if called := mcpbridgetest.Call(t, app, "joined", nil,
		mcpbridgetest.WithAnswers("a", []string{"file:///x"}, "b")); called.Text() != "afile:///xb" ||
		called.Rounds != 2 {
		t.Errorf("got %v in %d rounds", called.Result, called.Rounds)
	}
	called := mcpbridgetest.Call(t, app, "concurrent", nil,
		mcpbridgetest.WithAnswers("a", "b", "c", "d", "e", "f", "g", "h"))
	letters := []byte(called.Text()) // They ask in any order.
	if slices.Sort(letters); string(letters) != "abcdefgh" || called.Rounds != 2 {
		t.Errorf("got %v in %d rounds", called.Result, called.Rounds)
	}
}

func TestOutcomesOfQuestionsAreDistinct(t *testing.T) {
	app := asksColour(func(a mcpbridge.Answer[colour], err error) (string, error) {
		for _, kind := range []error{
			mcpbridge.ErrUnsupported, mcpbridge.ErrNoAnswer, mcpbridge.ErrRefused,
			mcpbridge.ErrInvalidAnswer,
		} {
			if errors.Is(err, kind) {
				return kind.Error(), nil
			}
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a.Accepted(), a.Declined(), a.Cancelled()), nil
	})
	for want, answer := range map[string]any{
		"true false false":                 colour{"red"},
		"false true false":                 mcpbridgetest.Decline,
		"false false true":                 mcpbridgetest.Cancel,
		mcpbridge.ErrInvalidAnswer.Error(): colour{"blue"},
		mcpbridge.ErrUnsupported.Error():   failed(pb.InputError_REASON_UNSUPPORTED),
		mcpbridge.ErrNoAnswer.Error():      failed(pb.InputError_REASON_NO_ANSWER),
		mcpbridge.ErrRefused.Error():       failed(pb.InputError_REASON_REFUSED),
	} {
		if got := mcpbridgetest.Call(t, app, "paint", nil, mcpbridgetest.WithAnswers(answer)).Text(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	gets := asksColour(func(a mcpbridge.Answer[colour], err error) (string, error) {
		if err != nil {
			return "", err
		}
		c, err := a.Get()
		return c.Colour, err
	})
	if called := mcpbridgetest.Call(t, gets, "paint", nil,
		mcpbridgetest.WithAnswers(mcpbridgetest.Decline)); !called.IsError() ||
		called.Text() != "the user declined: Which colour?" {
		t.Errorf("got %v", called.Result)
	}
}

func failed(reason pb.InputError_Reason) *pb.InputResponse {
	return &pb.InputResponse{Response: &pb.InputResponse_Error{Error: &pb.InputError{Reason: reason}}}
}

func TestClientWithoutInputCapabilities(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "form", func(ctx context.Context) (string, error) {
		_, err := mcpbridge.Elicit[bool](ctx, "Delete it?")
		return "", err
	})
	does(app, "url", func(ctx context.Context) (string, error) {
		a, err := mcpbridge.ElicitURL(ctx, "Sign in", "https://example.com/")
		return string(a.Action), err
	})
	about := mcpbridgetest.Everything()
	about.ClientCapabilities = &pb.ClientCapabilities{Elicitation: &pb.ElicitationCapability{Url: &pb.Capability{}}}
	called := mcpbridgetest.Call(t, app, "form", nil, mcpbridgetest.WithCaller(about))
	const want = `This client cannot show a form to its user. Ask the user yourself: "Delete it?", and call the tool again with the answer.`
	if called.Text() != want || !called.IsError() {
		t.Errorf("got %v", called.Result)
	}
	if called := mcpbridgetest.Call(t, app, "url", nil, mcpbridgetest.WithCaller(about),
		mcpbridgetest.WithAnswers(M{})); called.Text() != "accept" {
		t.Errorf("got %v", called.Result)
	}
	about.ClientCapabilities.Elicitation = &pb.ElicitationCapability{} // 2025-06-18: neither means form
	if called := mcpbridgetest.Call(t, app, "form", nil, mcpbridgetest.WithCaller(about),
		mcpbridgetest.WithAnswers(true)); called.IsError() || called.Rounds != 2 {
		t.Errorf("got %v", called.Result)
	}
	if _, err := mcpbridge.Elicit[bool](t.Context(), "Outside a call?"); !errors.Is(err, mcpbridge.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func TestForms(t *testing.T) {
	type all struct {
		Name  string   `json:"name" jsonschema:"Your name" schema:"title=Name"`
		Age   *int     `json:"age" schema:"min=0"`
		Sure  bool     `json:"sure,omitempty" schema:"default=true"`
		Tags  []string `json:"tags" schema:"enum=a|b"`
		Share float64  `json:"share"`
	}
	app := mcpbridge.New("test", "1")
	does(app, "all", func(ctx context.Context) (string, error) {
		a, err := mcpbridge.Elicit[all](ctx, "?")
		return fmt.Sprint(a.Data.Name, a.Data.Sure, a.Data.Age == nil), err
	})
	does(app, "choose", func(ctx context.Context) (string, error) {
		a, err := mcpbridge.Elicit[string](ctx, "?", mcpbridge.OneOf("x", "y"))
		return a.Data, err
	})
	does(app, "own", func(ctx context.Context) (string, error) {
		a, err := mcpbridge.Elicit[M](ctx, "?",
			mcpbridge.FormSchema(`{"type":"object","properties":{"n":{"type":"integer"}}}`))
		return fmt.Sprint(a.Data["n"]), err
	})
	does(app, "nested", func(ctx context.Context) (string, error) {
		_, err := mcpbridge.Elicit[struct{ In colour }](ctx, "?")
		return "", err
	})
	called := mcpbridgetest.Call(t, app, "all", nil,
		mcpbridgetest.WithAnswers(M{"name": "Ada", "tags": []string{"a"}, "share": 1, "more": "ignored"}))
	const schema = `{"type":"object","properties":{"name":{"type":"string","title":"Name","description":"Your name"},
		"age":{"type":"integer","minimum":0},"sure":{"type":"boolean","default":true},
		"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}},"share":{"type":"number"}},"required":["name","tags","share"]}`
	if got := called.Asked[0].GetElicit().GetForm().
		GetRequestedSchema(); canonical(t, []byte(got)) != canonical(t, []byte(schema)) {
		t.Errorf("got %s", got)
	}
	if called.Text() != "Ada true true" && called.Text() != "Adatruetrue" && called.Text() != "Adatrue true" {
		t.Errorf("got %q", called.Text())
	}
	if got := mcpbridgetest.Call(t, app, "choose", nil, mcpbridgetest.WithAnswers("y")).Text(); got != "y" {
		t.Errorf("got %s", got)
	}
	if called := mcpbridgetest.Call(t, app, "choose", nil,
		mcpbridgetest.WithAnswers("z")); !strings.Contains(called.Text(), `- value: must be one of "x", "y", got "z"`) {
		t.Errorf("got %s", called.Text())
	}
	if got := mcpbridgetest.Call(t, app, "own", nil, mcpbridgetest.WithAnswers(M{"n": 3})).Text(); got != "3" {
		t.Errorf("got %s", got)
	}
	if got := mcpbridgetest.Call(t, app, "nested", nil).Text(); !strings.Contains(got, `a form cannot ask for "In"`) {
		t.Errorf("got %s", got)
	}
}

func TestStateThatIsTooLargeFailsTheCallAndNamesTheCulprit(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "hoards", func(ctx context.Context) (string, error) {
		_, err1 := mcpbridge.Once(ctx, "page",
			func(context.Context) (string, error) { return strings.Repeat("x", 33<<10), nil })
		_, err2 := mcpbridge.Elicit[bool](ctx, "Sure?")
		return "", errors.Join(err1, err2)
	})
	called := mcpbridgetest.Call(t, app, "hoards", nil)
	if !called.IsError() || !strings.Contains(called.Text(),
		`more than the maximum of 32768; the largest part is mcpbridge.Once("page"), 33794 bytes`) {
		t.Errorf("got %v", called.Text())
	}
}

func TestUnknownStateIsRejected(t *testing.T) {
	app := asksColour(func(_ mcpbridge.Answer[colour], err error) (string, error) { return "", err })
	for _, state := range []string{"asked", `{"answers":{"k":"!"}}`, `{"answers":{"k":"AQ=="}}`} {
		request := &pb.CallToolRequest{Context: mcpbridgetest.Everything(), Name: "paint", RequestState: []byte(state)}
		err := app.Service().CallTool(request, &discarded{ctx: t.Context()})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: got %v", state, err)
		}
	}
}

func TestUnrequestedAnswersAreNotKept(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "asks", func(ctx context.Context) (string, error) {
		_, err := mcpbridge.Elicit[bool](ctx, "Sure?", mcpbridge.Key("sure"))
		return "", err
	})
	request := &pb.CallToolRequest{
		Context: mcpbridgetest.Everything(), Name: "asks",
		InputResponses: map[string]*pb.InputResponse{
			"spam": {Response: &pb.InputResponse_Elicit{
				Elicit: &pb.ElicitResult{Content: strings.Repeat(" ", 40<<10)},
			}},
			// of another kind: asked again
			"sure": {Response: &pb.InputResponse_ListRoots{ListRoots: &pb.ListRootsResult{}}},
		},
	}
	s := &discarded{ctx: t.Context()}
	if err := app.Service().CallTool(request, s); err != nil {
		t.Fatal(err)
	}
	needs := s.last.GetInputRequired()
	var state struct{ Answers map[string]string }
	if err := json.Unmarshal(needs.GetRequestState(), &state); err != nil || len(state.Answers) != 0 ||
		len(needs.GetInputRequests()) != 1 {
		t.Errorf("got %s, %v", needs.GetRequestState(), needs.GetInputRequests())
	}
}

func TestHandlerWithAStateOfItsOwn(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "own", func(ctx context.Context) (string, error) {
		if mcpbridge.State(ctx) == nil {
			roots := &pb.InputRequest_ListRoots{ListRoots: &pb.ListRootsRequest{}}
			needs := &pb.InputRequired{
				InputRequests: []*pb.InputRequest{{Key: "r", Request: roots}},
				RequestState:  []byte("mine"),
			}
			return "dropped", mcpbridge.ToolError("wrapped: %w", mcpbridge.Require(ctx, needs))
		}
		return string(mcpbridge.State(ctx)) + mcpbridge.Responses(ctx)["r"].GetListRoots().GetRoots()[0].GetUri(), nil
	})
	if called := mcpbridgetest.Call(t, app, "own", nil,
		mcpbridgetest.WithAnswers([]string{"file:///x"})); called.Text() != "minefile:///x" || called.Rounds != 2 {
		t.Errorf("got %v", called.Result)
	}
}

func TestQuestionsAreAnsweredInTheirOrder(t *testing.T) {
	app := mcpbridge.New("test", "1")
	does(app, "asks", func(ctx context.Context) (string, error) {
		var text []string
		var errs []error
		for _, q := range []string{"z", "a", "m"} {
			a, err := mcpbridge.Elicit[string](ctx, q, mcpbridge.Key(q))
			text, errs = append(text, a.Data), append(errs, err)
		}
		return strings.Join(text, ""), errors.Join(errs...)
	})
	if got := mcpbridgetest.Call(t, app, "asks", nil, mcpbridgetest.WithAnswers("1", "2", "3")).Text(); got != "123" {
		t.Errorf("got %s", got)
	}
}
