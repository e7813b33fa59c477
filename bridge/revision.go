package bridge

import "fmt"

// A Revision is a revision of the Model Context Protocol. Nobody but this file compares Revisions: everyone else asks one
// a question, so that a new revision touches one place.
type Revision uint8

// The revisions of MCP, in order.
const (
	// NoRevision stands for no revision at all.
	NoRevision Revision = iota
	// Rev20241105 is 2024-11-05.
	Rev20241105
	// Rev20250326 is 2025-03-26.
	Rev20250326
	// Rev20250618 is 2025-06-18.
	Rev20250618
	// Rev20251125 is 2025-11-25.
	Rev20251125
	// Rev20260728 is 2026-07-28.
	Rev20260728
)

// LatestLegacy is the newest revision that `initialize` can negotiate.
const LatestLegacy = Rev20251125

// AssumedHTTP is the revision of an HTTP request that does not say its own (2025-06-18 to 2025-11-25: basic/transports,
// protocol version header).
const AssumedHTTP = Rev20250326

var revisionNames = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// ParseRevision returns the revision of the given name. It reports false for a name that is not known.
func ParseRevision(name string) (Revision, bool) {
	for r := Rev20241105; int(r) < len(revisionNames); r++ {
		if revisionNames[r] == name {
			return r, true
		}
	}
	return NoRevision, false
}

// Revisions returns every revision, oldest first.
func Revisions() []Revision {
	return []Revision{Rev20241105, Rev20250326, Rev20250618, Rev20251125, Rev20260728}
}

// ModernNames returns the names of the revisions that have no `initialize`.
func ModernNames() []string {
	var names []string
	for _, r := range Revisions() {
		if r.Modern() {
			names = append(names, r.String())
		}
	}
	return names
}

// String returns the revision's name, such as "2025-11-25".
func (r Revision) String() string {
	if int(r) < len(revisionNames) {
		return revisionNames[r]
	}
	return fmt.Sprintf("Revision(%d)", r)
}

// Within reports whether r is since or later, and before until. NoRevision means no bound.
func (r Revision) Within(since, until Revision) bool {
	return r >= since && (until == NoRevision || r < until)
}

// Modern reports whether every request says all that is needed to answer it, and servers never send requests: the era
// that began with 2026-07-28. The other revisions are legacy.
func (r Revision) Modern() bool { return r >= Rev20260728 }

// Era returns the era of r. NoRevision is modern.
func (r Revision) Era() Era {
	if r == NoRevision || r.Modern() {
		return ModernEra
	}
	return LegacyEra
}

// An Era is modern or legacy. It indexes what is stored for each: a server that serves both may differ between them.
type Era uint8

const (
	// ModernEra is the era of 2026-07-28 and later.
	ModernEra Era = iota
	// LegacyEra is the era of the revisions that have `initialize`.
	LegacyEra
	// Eras is the number of eras.
	Eras
)

// Latest returns the newest revision of the era.
func (e Era) Latest() Revision {
	return [Eras]Revision{ModernEra: Rev20260728, LegacyEra: LatestLegacy}[e]
}

// TakesBatches reports whether a message may be a JSON array of messages: 2025-03-26 says so, and 2024-11-05 says only that it is
// JSON-RPC, which has them. 2025-06-18 has removed them.
func (r Revision) TakesBatches() bool { return r < Rev20250618 }

// SendsVersionHeader reports whether HTTP clients say the revision in the MCP-Protocol-Version header.
func (r Revision) SendsVersionHeader() bool { return r >= Rev20250618 }

// PrimesSSE reports whether an SSE stream may begin with an event that has an id and no data, and be cut by the server
// after it. Older clients choke on such an event.
func (r Revision) PrimesSSE() bool { return r == Rev20251125 }

// ResourceNotFound returns the JSON-RPC code for a resource that does not exist.
func (r Revision) ResourceNotFound() int64 {
	if r.Modern() {
		return codeInvalidParams
	}
	return codeResourceNotFound
}

// ErrorCode returns the JSON-RPC code by which an error is told that somebody wants to have a particular one. That is this one, unless
// the revision says that it must not be sent: where it is reserved, and for something else or nothing (2025-11-25: client/elicitation;
// 2026-07-28: basic/index, error codes).
func (r Revision) ErrorCode(code int64) int64 {
	switch {
	case code == CodeURLElicitation && !r.HasURLElicitationError():
		return codeInternal
	case !r.Modern():
		return code
	case code == codeResourceNotFound:
		return codeInvalidParams
	case code == codeHeaderMismatch, code == CodeMissingCapability, code == codeUnsupportedVersion:
		return code
	case code >= firstReserved && code <= lastReserved:
		return codeInternal
	}
	return code
}

// OmitsUnknownErrorID reports whether an error for a message whose id cannot be read has no `id`. In older revisions it is
// null, as JSON-RPC 2.0 says.
func (r Revision) OmitsUnknownErrorID() bool { return r >= Rev20251125 }

// HasURLElicitationError reports whether a request can fail with an error that names web pages to visit, and a notification
// tells when the user is done with one.
func (r Revision) HasURLElicitationError() bool { return r == Rev20251125 }

// HasURLElicitation reports whether a user can be asked to visit a web page.
func (r Revision) HasURLElicitation() bool { return r >= Rev20251125 }

// HasMultiSelect reports whether a form can have a field with several values.
func (r Revision) HasMultiSelect() bool { return r >= Rev20251125 }

// HasSamplingTools reports whether a model that is asked can wish for tools.
func (r Revision) HasSamplingTools() bool { return r >= Rev20251125 }

// DeclaresSamplingContext reports whether clients say that they add the context of servers to what a model is asked.
func (r Revision) DeclaresSamplingContext() bool { return r >= Rev20251125 }

// HasStructuredContent reports whether a tool's result can have JSON beside its content, and whether that can be any JSON
// value or only an object.
func (r Revision) HasStructuredContent() (has, anyValue bool) {
	return r >= Rev20250618, r.Modern()
}

// HasToolTitle reports whether a tool has a title of its own. In 2025-03-26 it is among the annotations.
func (r Revision) HasToolTitle() bool { return r >= Rev20250618 }

// HasTitledEnums reports whether a form's choices are titled by `oneOf`. In 2025-06-18 they are by `enumNames`.
func (r Revision) HasTitledEnums() bool { return r >= Rev20251125 }

// HasFormDefaults reports whether a form's fields of every type can have defaults.
func (r Revision) HasFormDefaults() bool { return r >= Rev20251125 }

// HasResultType reports whether a result says by `resultType` whether it is complete.
func (r Revision) HasResultType() bool { return r.Modern() }

// DeclaresCompletions reports whether a server says in its capabilities that it completes arguments. In 2024-11-05 it may, and cannot say so.
func (r Revision) DeclaresCompletions() bool { return r >= Rev20250326 }

// HasAudio reports whether content can be sound.
func (r Revision) HasAudio() bool { return r >= Rev20250326 }

// HasResourceLinks reports whether content can be a link to a resource.
func (r Revision) HasResourceLinks() bool { return r >= Rev20250618 }

// HasSamplingLists reports whether a message to or from a model can have several blocks of content.
func (r Revision) HasSamplingLists() bool { return r >= Rev20251125 }

// HasElicitationID reports whether the question to visit a web page has an id, so that its completion can be told.
func (r Revision) HasElicitationID() bool { return r == Rev20251125 }
