import HTTP
import HTTPTypes

extension HTTPFields {
  /// The fields with `traceparent`, if there is a current trace.
  var traced: HTTPFields {
    guard let trace = TraceContext.current, let name = HTTPField.Name("traceparent") else { return self }
    var fields = self
    fields[name] = trace.traceparent
    return fields
  }
}
