package catalog

import (
	"net/url"

	"github.com/mcpbridge/mcpbridge/bridge"
	"github.com/mcpbridge/mcpbridge/internal/rawjson"
)

// checkPages returns an error if the answer of a backend contains the URL of an elicitation that is not http or https.
// Clients pass such URLs to the system, which would run javascript: or open files and programs without the consent of
// the user.
func checkPages(call *bridge.Call, res *bridge.Result, err error) error {
	for _, page := range pages(res, err) {
		u, err := url.Parse(page)
		if err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != "" {
			continue
		}
		return bridge.ProtocolViolation(bridge.OutcomeUnknown,
			"%s: the backend has the user visit %q, which is no web page: the URL must begin with https:// or http://",
			call.Method.Name, rawjson.Shorten(page))
	}
	return nil
}

// pages returns the URLs that users are to visit.
func pages(res *bridge.Result, err error) (urls []string) {
	if err != nil {
		e := bridge.AsError(err)
		if data := rawjson.AsBytes(e.RPC.GetData()); e.RPC.GetCode() == bridge.CodeURLElicitation &&
			rawjson.Check(data) == nil {
			for raw := range rawjson.Elements(rawjson.Get(data, "elicitations")) {
				if page, ok := rawjson.String(rawjson.Get(raw, "url")); ok {
					urls = append(urls, page)
				}
			}
		}
		return urls
	}
	for _, req := range res.InputRequired.GetInputRequests() {
		if page := req.GetElicit().GetUrl(); page != nil {
			urls = append(urls, page.GetUrl())
		}
	}
	return urls
}
