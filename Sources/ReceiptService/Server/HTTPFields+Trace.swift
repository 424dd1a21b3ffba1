import HTTP
import HTTPTypes

extension HTTPFields {
  /// With the field that makes the call a part of the current trace, if there is one.
  var traced: HTTPFields {
    guard let trace = TraceContext.current, let name = HTTPField.Name("traceparent") else { return self }
    var fields = self
    fields[name] = trace.traceparent
    return fields
  }
}
