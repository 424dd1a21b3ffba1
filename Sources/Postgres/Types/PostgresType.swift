/// A PostgreSQL type by its object id, which is constant for built-in types (`pg_type.dat` of PostgreSQL).
public struct PostgresType: Hashable, Sendable {
  /// The object id in `pg_type`; 0 for ``inferred``.
  public let oid: UInt32

  /// The type with this object id.
  public init(oid: UInt32) {
    self.oid = oid
  }

  /// The server infers the type from the context, as for a quoted literal.
  public static let inferred = PostgresType(oid: 0)

  /// `boolean`
  public static let bool = PostgresType(oid: 16)
  /// `bytea`
  public static let bytea = PostgresType(oid: 17)
  /// `bigint`
  public static let int8 = PostgresType(oid: 20)
  /// `smallint`
  public static let int2 = PostgresType(oid: 21)
  /// `integer`
  public static let int4 = PostgresType(oid: 23)
  /// `text`
  public static let text = PostgresType(oid: 25)
  /// `json`
  public static let json = PostgresType(oid: 114)
  /// `real`
  public static let float4 = PostgresType(oid: 700)
  /// `double precision`
  public static let float8 = PostgresType(oid: 701)
  /// `date`
  public static let date = PostgresType(oid: 1082)
  /// `timestamp`
  public static let timestamp = PostgresType(oid: 1114)
  /// `timestamptz`
  public static let timestamptz = PostgresType(oid: 1184)
  /// `numeric`
  public static let numeric = PostgresType(oid: 1700)
  /// `uuid`
  public static let uuid = PostgresType(oid: 2950)
  /// `jsonb`
  public static let jsonb = PostgresType(oid: 3802)

  /// `boolean[]`
  public static let boolArray = PostgresType(oid: 1000)
  /// `bytea[]`
  public static let byteaArray = PostgresType(oid: 1001)
  /// `integer[]`
  public static let int4Array = PostgresType(oid: 1007)
  /// `text[]`
  public static let textArray = PostgresType(oid: 1009)
  /// `bigint[]`
  public static let int8Array = PostgresType(oid: 1016)
  /// `double precision[]`
  public static let float8Array = PostgresType(oid: 1022)
  /// `timestamptz[]`
  public static let timestamptzArray = PostgresType(oid: 1185)
  /// `uuid[]`
  public static let uuidArray = PostgresType(oid: 2951)
  /// `jsonb[]`
  public static let jsonbArray = PostgresType(oid: 3807)

  /// Whether the binary format of the type is text in the client's encoding. User-defined types (object ids from 16384
  /// on) are nearly always enumerations, whose binary format is their label. A value that is not UTF-8 is refused when
  /// it is decoded.
  @usableFromInline
  var isTextual: Bool {
    switch oid {
    case 18, 19, 25, 114, 705, 1042, 1043: true  // "char", name, text, json, unknown, bpchar, varchar
    default: oid >= 16384
    }
  }
}

extension PostgresType: CustomStringConvertible {
  /// The SQL name of the common types, the object id of the others.
  public var description: String {
    switch self {
    case .inferred: "unknown"
    case .bool: "boolean"
    case .bytea: "bytea"
    case .int2: "smallint"
    case .int4: "integer"
    case .int8: "bigint"
    case .float4: "real"
    case .float8: "double precision"
    case .numeric: "numeric"
    case .text: "text"
    case .json: "json"
    case .jsonb: "jsonb"
    case .date: "date"
    case .timestamp: "timestamp"
    case .timestamptz: "timestamptz"
    case .uuid: "uuid"
    default: "the type with oid \(oid)"
    }
  }
}
