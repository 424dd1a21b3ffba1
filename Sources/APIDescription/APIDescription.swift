/// The description of the HTTP API in OpenAPI 3.1: `docs/openapi.yaml`, as it was when this was built.
///
/// It is compiled in, so that a server always describes itself and not a file that lies about somewhere. A module of
/// its own, because the compiler takes seconds for an array that long, and should only when the file has changed.
public enum APIDescription {
  /// The file, in UTF-8.
  public static let yaml: [UInt8] = PackageResources.openapi_yaml
}
