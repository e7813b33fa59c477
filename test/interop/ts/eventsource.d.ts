// This version has no types, and those of @types require the DOM.
declare module "eventsource" {
  const EventSource: unknown;
  export default EventSource;
}
