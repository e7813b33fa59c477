package mcpjson

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mcpbridge/mcpbridge/bridge"
)

// This file defines how the messages of the contract are written in MCP's JSON, where that differs from these rules:
//
//   - A field is a member with the field's name in lowerCamelCase.
//   - A string, number, bool or enum without `optional` is required and always written, unless it has a fallback. Other
//     fields are written if they are set.
//   - `meta` is the object `_meta`, and `extra` contains the members without a field.

// A row describes the JSON of a message.
type row struct {
	// tag, if not empty, makes the message a union: this member of the JSON object selects the field of the only oneof.
	// The members of the field's message are beside the tag.
	tag string
	// key is the field for the member name in lists of the message, which are objects in JSON.
	key protoreflect.Name
	// content is the member of a union that contains the field's message instead.
	content string
	// tagDefault is the field that is selected if there is no tag.
	tagDefault protoreflect.Name
	// tagSince is the first revision that writes the tag. Older ones have only tagDefault.
	tagSince bridge.Revision
	// untagged makes the message a union without a tag: fieldRow.when selects the field.
	untagged bool
	// resultType is the value of `resultType` since 2026-07-28, if the message is a result.
	resultType string
	// hop are members between two peers that are not forwarded.
	hop    []string
	fields fields
}

type fields map[protoreflect.Name]fieldRow

// A fieldRow describes the JSON of a field.
type fieldRow struct {
	// name is the name of the member, if it is not the field's name in lowerCamelCase.
	name string
	// legacyName is the name of the member before 2026-07-28, if it differs.
	legacyName string
	// tagValue is the value of the tag that selects the field of a union, if it is not the field's name.
	tagValue string
	// when is the member that selects the field of a union without a tag.
	when string
	// json is set if the field holds JSON text. If the text is empty, there is no member.
	json jsonText
	// text means that the bytes are written as a string of the same UTF-8 text, not in base64.
	text bool
	// required means that a JSON object without the member is invalid.
	required bool
	// always means that the member is written even if the field is not set, as an empty list or message.
	always bool
	// notEmpty means that a message with an empty string is invalid.
	notEmpty bool
	// fallback is the JSON text that is written if the field is not set.
	fallback string
	// single means that a list of one element is written as the element, and may be read so.
	single bool
	// since is the first revision that has the member, and until the first that no longer has it.
	since, until bridge.Revision
	// role is that of a field that is not a member.
	role role
}

// A role is what a field is in JSON.
type role uint8

const (
	aMember        role = iota
	inlined             // the members of its message are members of the message around it
	internal            // none: it is between the bridge and the backend
	unknownMembers      // the JSON object of the members without a field
)

// A jsonText is the JSON text that a field holds.
type jsonText uint8

const (
	notJSON  jsonText = iota
	anObject          // null is the same as no member
	anyValue          // null is a value like any other
)

// everywhere are the rows of fields that are the same in every message.
var everywhere = fields{
	"meta":  metaSince(bridge.NoRevision),
	"extra": {role: unknownMembers, json: anObject},
}

func metaSince(rev bridge.Revision) fieldRow {
	return fieldRow{name: "_meta", json: anObject, since: rev}
}

// rowOf returns the row of a field.
func rowOf(fd protoreflect.FieldDescriptor) fieldRow {
	if r, ok := table[fd.ContainingMessage().Name()].fields[fd.Name()]; ok {
		return r
	}
	return everywhere[fd.Name()]
}

// HoldsJSON reports whether a field of the contract holds JSON text, and whether that must be an object.
func HoldsJSON(fd protoreflect.FieldDescriptor) (holds, object bool) {
	text := rowOf(fd).json
	return text != notJSON, text == anObject
}

// table has the rows of the messages by name.
var table = map[protoreflect.Name]row{
	"Annotations":  {fields: fields{"last_modified": {since: bridge.Rev20250618}}},
	"AudioContent": {fields: fields{"meta": metaSince(bridge.Rev20250618)}},
	"CallContext": {fields: fields{
		"protocol_version":    {role: internal},
		"client_info":         {role: internal},
		"client_capabilities": {role: internal},
		"log_level":           {role: internal},
		"progress_wanted":     {role: internal},
		"verified":            {role: internal},
	}},
	"CallToolRequest": {fields: fields{
		"context":         {role: inlined},
		"task":            {since: bridge.Rev20251125, until: bridge.Rev20260728},
		"arguments":       {json: anObject},
		"input_responses": {since: bridge.Rev20260728},
		"request_state":   {text: true, since: bridge.Rev20260728},
	}},
	"CallToolResult": {resultType: "complete", fields: fields{
		"content":            {always: true},
		"structured_content": {json: anyValue, since: bridge.Rev20250618},
	}},
	"CancelTaskRequest":  {fields: fields{"context": {role: inlined}}},
	"CancelTaskResponse": {resultType: "complete"},
	"ClientCapabilities": {fields: fields{
		"elicitation":  {since: bridge.Rev20250618},
		"tasks":        {json: anObject, since: bridge.Rev20251125, until: bridge.Rev20260728},
		"extensions":   {json: anObject},
		"experimental": {json: anObject},
	}},
	"CompleteRequest": {fields: fields{
		"context":          {role: inlined},
		"reference":        {name: "ref", required: true, always: true},
		"argument":         {required: true, always: true},
		"argument_context": {name: "context", since: bridge.Rev20250618},
	}},
	"CompleteResponse": {resultType: "complete", fields: fields{"completion": {required: true, always: true}}},
	"Completion":       {fields: fields{"values": {always: true}}},
	"CompletionReference": {tag: "type", fields: fields{
		"prompt":   {tagValue: "ref/prompt"},
		"resource": {tagValue: "ref/resource"},
		"raw":      {json: anObject},
	}},
	"ContentBlock": {tag: "type", fields: fields{
		"audio":         {since: bridge.Rev20250326},
		"resource_link": {since: bridge.Rev20250618},
		"tool_use":      {since: bridge.Rev20251125},
		"tool_result":   {since: bridge.Rev20251125},
		"raw":           {json: anObject},
	}},
	"CreateMessageRequest": {hop: []string{"task"}, fields: fields{
		"messages":    {always: true},
		"metadata":    {json: anObject},
		"tools":       {since: bridge.Rev20251125},
		"tool_choice": {since: bridge.Rev20251125},
	}},
	"CreateMessageResult": {fields: fields{
		"role":    {notEmpty: true},
		"content": {always: true, single: true},
	}},
	"CreateTaskResult": {resultType: "task", fields: fields{"task": {role: inlined}}},
	"DiscoverRequest":  {fields: fields{"context": {role: inlined}}},
	"DiscoverResponse": {resultType: "complete", hop: []string{"protocolVersion", "serverInfo"}, fields: fields{
		"server_info":        {role: internal},
		"capabilities":       {required: true, always: true},
		"supported_versions": {always: true, since: bridge.Rev20260728},
		"ttl_ms":             {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope":        {fallback: `"private"`, since: bridge.Rev20260728},
		"limits":             {role: internal},
		"contract_version":   {role: internal},
	}},
	"ElicitForm": {hop: []string{"task"}, fields: fields{
		"requested_schema": {json: anObject, fallback: `{"type":"object","properties":{}}`},
	}},
	"ElicitRequest": {tag: "mode", tagDefault: "form", tagSince: bridge.Rev20251125, fields: fields{
		"url": {since: bridge.Rev20251125},
		"raw": {json: anObject},
	}},
	"ElicitResult": {fields: fields{
		"action":  {notEmpty: true},
		"content": {json: anObject},
	}},
	"ElicitUrl": {hop: []string{"task"}, fields: fields{
		"elicitation_id": {since: bridge.Rev20251125, until: bridge.Rev20260728},
	}},
	"ElicitationCapability": {fields: fields{
		"form": {since: bridge.Rev20251125},
		"url":  {since: bridge.Rev20251125},
	}},
	"EmbeddedResource": {fields: fields{
		"resource": {required: true, always: true},
		"meta":     metaSince(bridge.Rev20250618),
	}},
	"GetPromptRequest": {fields: fields{
		"context":         {role: inlined},
		"input_responses": {since: bridge.Rev20260728},
		"request_state":   {text: true, since: bridge.Rev20260728},
	}},
	"GetTaskRequest": {fields: fields{
		"context": {role: inlined},
		"wait_ms": {role: internal},
	}},
	"GetTaskResponse": {resultType: "complete", fields: fields{"task": {role: inlined}}},
	"GetPromptResult": {resultType: "complete", fields: fields{"messages": {always: true}}},
	"ImageContent":    {fields: fields{"meta": metaSince(bridge.Rev20250618)}},
	"Implementation": {fields: fields{
		"title":       {since: bridge.Rev20250618},
		"description": {since: bridge.Rev20251125},
		"website_url": {since: bridge.Rev20251125},
		"icons":       {since: bridge.Rev20251125},
	}},
	"InputError": {fields: fields{"data": {json: anyValue}}},
	"InputRequest": {tag: "method", key: "key", content: "params", fields: fields{
		"key":            {role: internal},
		"elicit":         {tagValue: "elicitation/create"},
		"create_message": {tagValue: "sampling/createMessage"},
		"list_roots":     {tagValue: "roots/list"},
		"raw":            {json: anObject},
	}},
	"InputRequired": {resultType: "input_required", fields: fields{
		"request_state": {text: true},
	}},
	"InputResponse": {untagged: true, fields: fields{
		"elicit":         {when: "action"},
		"create_message": {when: "role"},
		"list_roots":     {when: "roots"},
		"error":          {role: internal},
		"raw":            {json: anObject},
	}},
	"JsonRpcError":       {fields: fields{"data": {json: anyValue}}},
	"ListPromptsRequest": {fields: fields{"context": {role: inlined}}},
	"ListPromptsResponse": {resultType: "complete", fields: fields{
		"prompts":     {always: true},
		"ttl_ms":      {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope": {fallback: `"private"`, since: bridge.Rev20260728},
	}},
	"ListResourceTemplatesRequest": {fields: fields{"context": {role: inlined}}},
	"ListResourceTemplatesResponse": {resultType: "complete", fields: fields{
		"resource_templates": {always: true},
		"ttl_ms":             {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope":        {fallback: `"private"`, since: bridge.Rev20260728},
	}},
	"ListResourcesRequest": {fields: fields{"context": {role: inlined}}},
	"ListResourcesResponse": {resultType: "complete", fields: fields{
		"resources":   {always: true},
		"ttl_ms":      {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope": {fallback: `"private"`, since: bridge.Rev20260728},
	}},
	"ListRootsResult":   {fields: fields{"roots": {always: true}}},
	"ListTasksRequest":  {fields: fields{"context": {role: inlined}}},
	"ListTasksResponse": {resultType: "complete", fields: fields{"tasks": {always: true}}},
	"ListToolsRequest":  {fields: fields{"context": {role: inlined}}},
	"ListToolsResponse": {resultType: "complete", fields: fields{
		"tools":       {always: true},
		"ttl_ms":      {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope": {fallback: `"private"`, since: bridge.Rev20260728},
	}},
	"ListenRequest": {fields: fields{
		"context":       {role: inlined},
		"notifications": {required: true, always: true},
	}},
	"ListenResult": {resultType: "complete"},
	"LogMessage":   {fields: fields{"data": {json: anyValue, fallback: `null`}}},
	"Principal":    {fields: fields{"claims": {json: anObject}}},
	"Progress":     {hop: []string{"progressToken"}, fields: fields{"message": {since: bridge.Rev20250326}}},
	"Prompt": {fields: fields{
		"title": {since: bridge.Rev20250618},
		"icons": {since: bridge.Rev20251125},
		"meta":  metaSince(bridge.Rev20250618),
	}},
	"PromptArgument": {fields: fields{"title": {since: bridge.Rev20250618}}},
	"PromptMessage": {fields: fields{
		"role":    {notEmpty: true},
		"content": {required: true, always: true},
	}},
	"PromptReference": {fields: fields{"title": {since: bridge.Rev20250618}}},
	"ReadResourceRequest": {fields: fields{
		"context":         {role: inlined},
		"input_responses": {since: bridge.Rev20260728},
		"request_state":   {text: true, since: bridge.Rev20260728},
	}},
	"ReadResourceResult": {resultType: "complete", fields: fields{
		"contents":    {always: true},
		"ttl_ms":      {fallback: `0`, since: bridge.Rev20260728},
		"cache_scope": {fallback: `"private"`, since: bridge.Rev20260728},
	}},
	"Resource": {fields: fields{
		"title": {since: bridge.Rev20250618},
		"icons": {since: bridge.Rev20251125},
		"meta":  metaSince(bridge.Rev20250618),
	}},
	"ResourceContents": {fields: fields{"meta": metaSince(bridge.Rev20250618)}},
	"ResourceTemplate": {fields: fields{
		"title": {since: bridge.Rev20250618},
		"icons": {since: bridge.Rev20251125},
		"meta":  metaSince(bridge.Rev20250618),
	}},
	"Root":            {fields: fields{"meta": metaSince(bridge.Rev20250618)}},
	"RootsCapability": {fields: fields{"list_changed": {until: bridge.Rev20260728}}},
	"SamplingCapability": {fields: fields{
		"context": {since: bridge.Rev20251125},
		"tools":   {since: bridge.Rev20251125},
	}},
	"SamplingMessage": {fields: fields{
		"role":    {notEmpty: true},
		"content": {always: true, single: true},
		"meta":    metaSince(bridge.Rev20251125),
	}},
	"ServerCapabilities": {fields: fields{
		"completions":  {since: bridge.Rev20250326},
		"tasks":        {json: anObject, since: bridge.Rev20251125, until: bridge.Rev20260728},
		"extensions":   {json: anObject},
		"experimental": {json: anObject},
	}},
	"SubscriptionFilter":        {fields: fields{"elicitations_completed": {role: internal}}},
	"SubscriptionsAcknowledged": {fields: fields{"notifications": {required: true, always: true}}},
	"Task": {fields: fields{
		"ttl_ms":           {legacyName: "ttl", fallback: `null`},
		"poll_interval_ms": {legacyName: "pollInterval"},
		"input_requests":   {since: bridge.Rev20260728},
		"result":           {since: bridge.Rev20260728},
		"error":            {since: bridge.Rev20260728},
	}},
	"TaskMetadata": {fields: fields{"ttl_ms": {name: "ttl"}}},
	"TextContent":  {fields: fields{"meta": metaSince(bridge.Rev20250618)}},
	"Tool": {fields: fields{
		"title":         {since: bridge.Rev20250618},
		"input_schema":  {json: anObject, fallback: `{"type":"object"}`},
		"output_schema": {json: anObject, since: bridge.Rev20250618},
		"annotations":   {since: bridge.Rev20250326},
		"icons":         {since: bridge.Rev20251125},
		"execution":     {since: bridge.Rev20251125, until: bridge.Rev20260728},
		"meta":          metaSince(bridge.Rev20250618),
	}},
	"ToolExecution": {fields: fields{
		"starts_later": {role: internal},
		"retry":        {role: internal},
	}},
	"UpdateTaskRequest": {fields: fields{
		"context":         {role: inlined},
		"input_responses": {required: true, always: true},
	}},
	"UpdateTaskResponse": {resultType: "complete"},
	"ToolResultContent": {fields: fields{
		"content":            {always: true},
		"structured_content": {json: anyValue},
	}},
	"ToolUseContent": {fields: fields{"input": {json: anObject, fallback: `{}`}}},
}
