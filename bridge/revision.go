package bridge

import "fmt"

// A Revision is a revision of the Model Context Protocol. Revisions are compared in this file only, so that a new
// one changes one place; other code calls the methods.
type Revision uint8

// The revisions of MCP, in order.
const (
	// NoRevision is the zero value.
	NoRevision Revision = iota
	Rev20241105
	Rev20250326
	Rev20250618
	Rev20251125
	Rev20260728
)

// LatestLegacy is the newest revision that `initialize` can negotiate.
const LatestLegacy = Rev20251125

// AssumedHTTP is the revision of an HTTP request without a version header (2025-06-18 to 2025-11-25:
// basic/transports, protocol version header).
const AssumedHTTP = Rev20250326

var revisionNames = [...]string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// ParseRevision returns the revision with the name, and whether there is one.
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

// ModernNames returns the names of the modern revisions.
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

// Within reports whether since <= r < until. NoRevision means no bound.
func (r Revision) Within(since, until Revision) bool {
	return r >= since && (until == NoRevision || r < until)
}

// Modern reports whether the revision is stateless: each request is complete, and servers send none.
func (r Revision) Modern() bool { return r >= Rev20260728 }

// Era returns the era of r. NoRevision is modern.
func (r Revision) Era() Era {
	if r == NoRevision || r.Modern() {
		return ModernEra
	}
	return LegacyEra
}

// An Era is modern or legacy. It is the index of values that may differ between eras.
type Era uint8

const (
	// ModernEra is 2026-07-28 and later.
	ModernEra Era = iota
	// LegacyEra is the era of `initialize`.
	LegacyEra
	// Eras is the number of eras.
	Eras
)

// Latest returns the newest revision of the era.
func (e Era) Latest() Revision {
	return [Eras]Revision{ModernEra: Rev20260728, LegacyEra: LatestLegacy}[e]
}

// AllowsBatches reports whether a message may be a JSON array of messages. 2025-03-26 requires it, 2024-11-05
// allows it by reference to JSON-RPC, and 2025-06-18 removed it.
func (r Revision) AllowsBatches() bool { return r < Rev20250618 }

// SendsVersionHeader reports whether HTTP clients send the header MCP-Protocol-Version.
func (r Revision) SendsVersionHeader() bool { return r >= Rev20250618 }

// PrimesSSE reports whether an SSE stream may begin with an event that has an ID and no data, after which the
// server may disconnect. Older clients fail on such an event.
func (r Revision) PrimesSSE() bool { return r == Rev20251125 }

// ResourceNotFound returns the JSON-RPC code for a resource that does not exist.
func (r Revision) ResourceNotFound() int32 {
	if r.Modern() {
		return codeInvalidParams
	}
	return codeResourceNotFound
}

// ErrorCode returns the JSON-RPC code to send for code. It differs where the revision reserves code for another
// purpose (2025-11-25: client/elicitation; 2026-07-28: basic/index, error codes).
func (r Revision) ErrorCode(code int32) int32 {
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

// OmitsUnknownErrorID reports whether an error for a message with an unreadable ID has no `id`. In older revisions
// it is null, as in JSON-RPC 2.0.
func (r Revision) OmitsUnknownErrorID() bool { return r >= Rev20251125 }

// HasURLElicitationError reports whether a request can fail with CodeURLElicitation, and clients are notified of
// completed elicitations.
func (r Revision) HasURLElicitationError() bool { return r == Rev20251125 }

// HasURLElicitation reports whether elicitation has the mode url.
func (r Revision) HasURLElicitation() bool { return r >= Rev20251125 }

// HasMultiSelect reports whether a form field can have several values.
func (r Revision) HasMultiSelect() bool { return r >= Rev20251125 }

// HasSamplingTools reports whether sampling supports tools.
func (r Revision) HasSamplingTools() bool { return r >= Rev20251125 }

// DeclaresSamplingContext reports whether clients declare support for includeContext.
func (r Revision) DeclaresSamplingContext() bool { return r >= Rev20251125 }

// HasStructuredContent reports whether a tool's result can have structured content, and whether that can be any
// JSON value instead of an object only.
func (r Revision) HasStructuredContent() (has, anyValue bool) {
	return r >= Rev20250618, r.Modern()
}

// HasToolTitle reports whether a tool has a title. In 2025-03-26 it is an annotation.
func (r Revision) HasToolTitle() bool { return r >= Rev20250618 }

// HasTitledEnums reports whether `oneOf` holds the titles of a form's choices. In 2025-06-18 `enumNames` does.
func (r Revision) HasTitledEnums() bool { return r >= Rev20251125 }

// HasFormDefaults reports whether form fields of every type can have defaults.
func (r Revision) HasFormDefaults() bool { return r >= Rev20251125 }

// HasResultType reports whether results have `resultType`.
func (r Revision) HasResultType() bool { return r.Modern() }

// DeclaresCompletions reports whether servers declare completion. A server of 2024-11-05 may have it, and cannot
// declare it.
func (r Revision) DeclaresCompletions() bool { return r >= Rev20250326 }

// HasAudio reports whether content can be audio.
func (r Revision) HasAudio() bool { return r >= Rev20250326 }

// HasResourceLinks reports whether content can be a resource link.
func (r Revision) HasResourceLinks() bool { return r >= Rev20250618 }

// HasSamplingLists reports whether a sampling message can have several content blocks.
func (r Revision) HasSamplingLists() bool { return r >= Rev20251125 }

// HasElicitationID reports whether a URL elicitation has an ID, which its completion refers to.
func (r Revision) HasElicitationID() bool { return r == Rev20251125 }

// HasTaskMetadata reports whether a request can have `task`, with which the client requests a task.
func (r Revision) HasTaskMetadata() bool { return r == Rev20251125 }

// FailsTaskOfFailedTool reports whether a task is "failed" if the result of its tool has isError. Since 2026-07-28 it
// is "completed".
func (r Revision) FailsTaskOfFailedTool() bool { return r == Rev20251125 }

// CancelsEndedTasks reports whether tasks/cancel succeeds for a task that has ended.
func (r Revision) CancelsEndedTasks() bool { return r.Modern() }
