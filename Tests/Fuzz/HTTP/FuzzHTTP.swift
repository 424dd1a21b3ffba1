import FuzzSupport

/// The fuzz targets of the HTTP module.
@main struct FuzzHTTP {
  static func main() {
    Fuzzer.run([
      .init("http", ConnectionTarget.check), .init("chunks", ChunkTarget.check),
      .init("json", JSONTarget.check), .init("addresses", AddressTarget.check),
      .init("forwarded", ForwardedTarget.check),
      .init("traceparent", TraceTarget.check), .init("times", TimeTarget.check),
      .init("query", QueryTarget.check),
    ])
  }
}
