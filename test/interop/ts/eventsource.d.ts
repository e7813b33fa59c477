// This version has no types of its own, and those that others wrote want the DOM.
declare module "eventsource" {
  const EventSource: unknown;
  export default EventSource;
}
