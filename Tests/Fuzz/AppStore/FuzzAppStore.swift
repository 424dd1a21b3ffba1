import FuzzSupport

/// The fuzz targets of the AppStore module.
@main struct FuzzAppStore {
  static func main() {
    Fuzzer.run([
      .init("base64", Base64Target.check), .init("jws", JWSTarget.check),
      .init("certificates", CertificateTarget.check), .init("roots", RootsTarget.check),
      .init("receipt", ReceiptTarget.check), .init("payloads", PayloadTarget.check),
    ])
  }
}
