package fuzzing

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Variants is the number of inputs that a round parses besides the engine's. tools/fuzz reads this line.
const Variants = 31

const (
	// maxGrowth is how many bytes a variant may be longer than the input.
	maxGrowth = 64
	// maxChanges is the maximum number of changes of a variant.
	maxChanges = 4
)

// Run is f.Fuzz(fn) with several times as many inputs: the engine's overhead per round is larger than the cost of
// parsing most inputs, so each round also parses variants of its input. They are derived from the input alone, so
// that failures are reproducible. fn may retain and modify its arguments.
func Run(f *testing.F, fn any) {
	f.Helper()
	target := reflect.ValueOf(fn)
	f.Fuzz(reflect.MakeFunc(target.Type(), func(in []reflect.Value) []reflect.Value {
		round(target, in)
		return nil
	}).Interface())
}

// round calls a target with its arguments, the first of which is the test, and with variants of them, until it fails.
func round(target reflect.Value, in []reflect.Value) {
	t, _ := reflect.TypeAssert[*testing.T](in[0])
	t.Helper()
	v := newVariants(in[1:])
	target.Call(in)
	if t.Failed() {
		return
	}
	args, whole := slices.Clone(in), true
	defer func() {
		if t.Failed() || !whole && !t.Skipped() { // or it panics
			name, _, _ := strings.Cut(t.Name(), "/")
			t.Logf("what failed is this variant of the input. Keep it, as a seed or as a file in %s:\n%s",
				path.Join("testdata/fuzz", name), corpusFile(args[1:]))
		}
	}()
	for n := 0; n < Variants && !t.Failed(); n++ {
		v.next(args[1:])
		whole = false
		target.Call(args)
		whole = true
	}
}

// corpusFile encodes arguments in the engine's format.
func corpusFile(args []reflect.Value) string {
	lines := []string{"go test fuzz v1"}
	for _, a := range args {
		switch a.Kind() {
		case reflect.Slice:
			lines = append(lines, fmt.Sprintf("[]byte(%q)", a))
		case reflect.String:
			lines = append(lines, fmt.Sprintf("string(%q)", a))
		default:
			lines = append(lines, fmt.Sprintf("%s(%v)", a.Type(), a))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// variants generates variants of arguments.
type variants struct {
	*rand.Rand

	of    []reflect.Value
	texts []int // indexes of bytes and strings
}

func newVariants(of []reflect.Value) variants {
	h, texts := fnv.New64a(), []int(nil)
	for i, a := range of {
		if isText(a) {
			texts = append(texts, i)
		}
		if b, ok := reflect.TypeAssert[[]byte](a); ok {
			_, _ = h.Write(b)
		} else {
			fmt.Fprint(h, a)
		}
		_, _ = h.Write([]byte{0xff})
	}
	return variants{rand.New(rand.NewPCG(h.Sum64(), 0)), of, texts}
}

func isText(a reflect.Value) bool { return a.Kind() == reflect.Slice || a.Kind() == reflect.String }

// next writes the next variant to args.
func (v variants) next(args []reflect.Value) {
	copy(args, v.of)
	texts := make([][]byte, len(args))
	for _, i := range v.texts {
		texts[i] = v.text(v.of[i])
	}
	for range 1 + v.IntN(maxChanges) {
		i := v.IntN(len(args))
		if len(v.texts) > 0 && v.IntN(2) == 0 { // texts find more bugs than numbers
			i = v.texts[v.IntN(len(v.texts))]
		}
		if !isText(v.of[i]) {
			args[i] = v.number(v.of[i].Type())
			continue
		}
		texts[i] = v.change(texts[i], v.of[i].Len()+maxGrowth)
	}
	for _, i := range v.texts {
		args[i] = reflect.ValueOf(texts[i]).Convert(v.of[i].Type())
	}
}

// text returns a copy of an argument.
func (v variants) text(a reflect.Value) []byte {
	b := make([]byte, a.Len(), a.Len()+maxGrowth)
	if a.Kind() == reflect.String {
		copy(b, a.String())
	} else {
		copy(b, a.Bytes())
	}
	return b
}

// number returns a number of a type, or a bool. Half of the numbers beside a text are small; those without a text are
// often random seeds.
func (v variants) number(t reflect.Type) reflect.Value {
	x, n := reflect.New(t).Elem(), v.Uint64()
	if len(v.texts) > 0 && v.IntN(2) == 0 {
		n = n%16 - 2 // 0 and 1 underflow to the largest numbers
	}
	switch {
	case x.CanInt():
		x.SetInt(int64(n))
	case x.CanUint():
		x.SetUint(n)
	case x.CanFloat():
		x.SetFloat(float64(int64(n)) / 8)
	default:
		x.SetBool(n%2 == 0)
	}
	return x
}

// change modifies a text, which grows to at most most bytes.
func (v variants) change(b []byte, most int) []byte {
	if len(b) == 0 {
		return append(b, tokens[v.IntN(len(tokens))]...)
	}
	at := v.IntN(len(b))
	end := at + 1 + v.IntN(min(len(b)-at, 1<<v.IntN(10)))
	switch v.IntN(10) {
	case 0:
		b[at] ^= 1 << v.IntN(8)
	case 1:
		b[at] = bytesToTry[v.IntN(len(bytesToTry))]
	case 2:
		return slices.Delete(b, at, end)
	case 3:
		return b[:at]
	case 4: // duplicated
		end = min(end, at+most-len(b))
		return slices.Insert(b, end, slices.Clone(b[at:end])...)
	case 5: // moved
		moved := slices.Clone(b[at:end])
		b = slices.Delete(b, at, end)
		return slices.Insert(b, v.IntN(len(b)+1), moved...)
	case 6:
		from := at
		for from < len(b) && !isDigit(b[from]) {
			from++
		}
		to := from
		for to < len(b) && isDigit(b[to]) {
			to++
		}
		return put(b, from, to, numbers[v.IntN(len(numbers))], most)
	case 7:
		return put(b, at, end, tokens[v.IntN(len(tokens))], most)
	default:
		return put(b, at, at, tokens[v.IntN(len(tokens))], most)
	}
	return b
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// put replaces a range of a text by another, up to a maximum size.
func put(b []byte, from, to int, by string, most int) []byte {
	room := most - (len(b) - (to - from))
	return slices.Replace(b, from, to, []byte(by[:min(len(by), room)])...)
}

const bytesToTry = "\x00\x01\t\n\r \"',./:;=?[\\]{|}~\x7f\x80\xbf\xc0\xed\xf4\xff"

var numbers = strings.Fields(
	`0 -0 1 -1 00 1.0 1e2 0.1 1e-1 1e999 1e-999 1e999999999 255 256 65536 2147483648 4294967296 9007199254740991
	9007199254740992 9007199254740993 9223372036854775807 9223372036854775808 18446744073709551616
	-9223372036854775809 99999999999999999999 0x1 1_0 NaN`)

// tokens are frequent parts of the inputs: of JSON, lines, events, headers, addresses, tokens and configurations.
var tokens = slices.Concat(numbers, strings.Fields(`
	{ } [ ] , : " \ ' {} [] "" [[ ]] {{ }} \" \\ \/ \b \n \u0000 \u0041 \u006f \u2028 \ud800 \udc00 \ud83d\ude00 \u
	\uD8 null true false True "a" "a":1 ,"a":1 {"a":1} [1,2] ,0 ,[] ,{} ,"" "id": "jsonrpc":"2.0" "method": "params":
	"result": "error": "_meta": "name": "type": "$ref":"#" "enum":[1] data: id: event: retry: : Bearer Basic DPoP
	scope= realm=" error=" = == =?base64? ?= a b * - -- .. ./ / // ; | & # % %00 %2e @ ? ~ ~1 ^ $ ${ ${env:A} $${ !!
	&a *a <<: --- ... > < ! e30 eyJ e30. . localhost 127.0.0.1 [::1] 0.0.0.0 :80 http:// https:// file:// unix:// tcp
	1|1| CERT SOCKET KEY ES256 none
	é ſ K İ € 😀 �`),
	[]string{
		" ", "  ", "\n", "\r", "\r\n", "\n\n", "\t", "\v", "\x00", "\x1b[31m", "\x7f", "\x80", "\xff", "\xc0\x80",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\ufeff", "\u0085", "\u00a0", "\u2028", "\u200b",
		"data: ", "\ndata: ", "Bearer ", "\n- a: ", "\n  ", ": ", ", ", "panic: ", "\n\tat ", "\x00\x00\x00\x01",
		"\x08\x01", "\x12\x00", "\x0a\x02a",
	})
