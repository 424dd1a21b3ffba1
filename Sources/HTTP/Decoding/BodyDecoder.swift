/// Collects the body of one request.
struct BodyDecoder {
  private var framing: Framing
  private var body: [UInt8] = []

  /// The memory of the body so far: up to twice its length.
  var bufferedBytes: Int { body.capacity }

  private enum Framing {
    case length(remaining: Int)
    case chunked(ChunkedDecoder)
  }

  /// - Parameter maximumLength: the route's limit.
  /// - Throws: 413 if `Content-Length` exceeds the limit.
  init(framing: BodyFraming, maximumLength: Int, limits: HTTPLimits) throws(Problem) {
    switch framing {
    case .none:
      self.framing = .length(remaining: 0)
    case .length(let length):
      guard length <= maximumLength else { throw .payloadTooLarge(maximum: maximumLength) }
      self.framing = .length(remaining: length)
      // A client could announce large bodies and never send them, so not all of the memory is reserved.
      body.reserveCapacity(min(length, 65_536))
    case .chunked:
      self.framing = .chunked(ChunkedDecoder(maximumLength: maximumLength, limits: limits))
    }
  }

  /// Decodes `input` from `position` on, and moves `position` to the end of the body's bytes.
  ///
  /// - Returns: the body once it is complete.
  mutating func decode(_ input: Span<UInt8>, from position: inout Int) throws(Problem) -> [UInt8]? {
    switch framing {
    case .length(let remaining):
      let count = min(remaining, input.count - position)
      body.append(copying: input.extracting(position..<(position + count)))
      position += count
      framing = .length(remaining: remaining - count)
      return count == remaining ? body : nil
    case .chunked(var decoder):
      // An error ends the connection, so the decoder is not stored then.
      let isComplete = try decoder.decode(input, from: &position, into: &body)
      framing = .chunked(decoder)
      return isComplete ? body : nil
    }
  }
}

/// Decodes the chunked transfer coding of a body (RFC 9112 §7.1).
///
/// A chunk header is hexadecimal digits, well-formed extensions, which are dropped, and CR LF. Signs, bare line feeds,
/// other spaces, and data without CR LF are refused, because servers interpret them differently. Trailer fields must be
/// well-formed and are dropped.
struct ChunkedDecoder {
  private let limits: HTTPLimits
  private let maximumLength: Int
  private var state = State.size(value: 0, digits: 0)
  private var lines = LineReader()
  /// The length of all extensions so far: a body of one-byte chunks must not have a long extension for each.
  private var extensionLength = 0
  private var trailerLength = 0
  private var trailerCount = 0

  private enum State {
    case size(value: UInt64, digits: Int)
    case chunkExtension(value: UInt64, ChunkExtensionReader)
    case sizeLineFeed(value: UInt64)
    case data(remaining: Int)
    case dataCarriageReturn
    case dataLineFeed
    case trailer
  }

  init(maximumLength: Int, limits: HTTPLimits) {
    self.maximumLength = maximumLength
    self.limits = limits
  }

  /// Decodes `input` from `position` on, moves `position`, and appends the data to `body`.
  ///
  /// - Returns: whether the body is complete.
  mutating func decode(
    _ input: Span<UInt8>, from position: inout Int, into body: inout [UInt8]
  ) throws(Problem) -> Bool {
    while position < input.count {
      switch state {
      case .data(let remaining):
        let count = min(remaining, input.count - position)
        body.append(copying: input.extracting(position..<(position + count)))
        position += count
        state = count == remaining ? .dataCarriageReturn : .data(remaining: remaining - count)
      case .trailer:
        let found = lines.line(in: input, at: position)
        let length = found.length
        try checkTrailer(with: length)
        guard try found.isComplete() else { return false }
        let line = input.extracting(position..<(position + length))
        position += length + 2
        if line.isEmpty { return true }
        trailerLength += length + 2
        try takeTrailer(line)
      default:
        try takeDelimiter(input[position], bodyLength: body.count)
        position += 1
      }
    }
    return false
  }

  /// Decodes one byte that is not data.
  private mutating func takeDelimiter(_ byte: UInt8, bodyLength: Int) throws(Problem) {
    switch state {
    case .size(let value, let digits):
      if let digit = ASCII.hexValue(byte), digits < 16 {
        state = .size(value: value << 4 | UInt64(digit), digits: digits + 1)
      } else if byte == ASCII.carriageReturn, digits > 0 {
        state = .sizeLineFeed(value: value)
      } else if digits > 0, let reader = ChunkExtensionReader(first: byte) {
        try countExtensionByte()
        state = .chunkExtension(value: value, reader)
      } else {
        throw .invalidRequest("A chunk's size must be 1 to 16 hexadecimal digits.")
      }
    case .chunkExtension(let value, var reader):
      if byte == ASCII.carriageReturn, reader.isComplete {
        state = .sizeLineFeed(value: value)
      } else {
        try reader.take(byte)
        try countExtensionByte()
        state = .chunkExtension(value: value, reader)
      }
    case .sizeLineFeed(let value):
      try expect(ASCII.lineFeed, byte)
      guard value <= UInt64(maximumLength - bodyLength) else {
        throw .payloadTooLarge(maximum: maximumLength)
      }
      state = value == 0 ? .trailer : .data(remaining: Int(value))
    case .dataCarriageReturn:
      try expect(ASCII.carriageReturn, byte)
      state = .dataLineFeed
    case .dataLineFeed:
      try expect(ASCII.lineFeed, byte)
      state = .size(value: 0, digits: 0)
    case .data, .trailer:
      break
    }
  }

  private func expect(_ expected: UInt8, _ byte: UInt8) throws(Problem) {
    guard byte == expected else { throw .invalidRequest("A chunk's size and its data each end with CR LF.") }
  }

  private mutating func countExtensionByte() throws(Problem) {
    extensionLength += 1
    guard extensionLength <= limits.head else {
      throw .headersTooLarge("The chunk extensions of a request may have at most \(limits.head) bytes.")
    }
  }

  private func checkTrailer(with lineLength: Int) throws(Problem) {
    guard trailerLength + lineLength <= limits.head else {
      throw .headersTooLarge("A request's trailers may have at most \(limits.head) bytes.")
    }
  }

  private mutating func takeTrailer(_ line: Span<UInt8>) throws(Problem) {
    trailerCount += 1
    guard trailerCount <= limits.fields else {
      throw .headersTooLarge("A request may have at most \(limits.fields) trailer fields.")
    }
    let field = try FieldLine(parsing: line)
    let name = line.extracting(..<field.nameEnd)
    // RFC 9110 §6.5.1: fields for framing and routing must not be trailers.
    guard !ASCII.isEqual(name, lowercase: "content-length"), !ASCII.isEqual(name, lowercase: "host"),
      !ASCII.isEqual(name, lowercase: "transfer-encoding")
    else {
      throw .invalidRequest("A trailer must not hold fields that frame the request.")
    }
  }
}

extension [UInt8] {
  init(copying bytes: Span<UInt8>) {
    self = bytes.withUnsafeBufferPointer { Array($0) }
  }

  mutating func append(copying bytes: Span<UInt8>) {
    bytes.withUnsafeBufferPointer { append(contentsOf: $0) }
  }
}

/// Validates the extensions of a chunk, byte by byte, and drops them (RFC 9112 §7.1.1).
///
///     chunk-ext = *( BWS ";" BWS chunk-ext-name [ BWS "=" BWS chunk-ext-val ] )
///
/// A name is a token, a value is a token or a quoted string. White space without a following `;` or `=` is refused, and
/// so is a CR or LF inside a quoted string: a less strict parser finds the end of the line elsewhere.
struct ChunkExtensionReader {
  private var state: State

  private enum State {
    /// White space after the size or a value: a `;` must follow.
    case beforeSemicolon
    case beforeName
    case name
    /// White space after a name: a `=` or a `;` must follow.
    case afterName
    case beforeValue
    case token
    case quoted
    /// After the backslash of a quoted pair.
    case escaped
    case afterQuoted
  }

  /// - Parameter first: the byte that follows the size.
  /// - Returns: nil if no extension begins with the byte.
  init?(first: UInt8) {
    switch first {
    case UInt8(ascii: ";"): state = .beforeName
    case ASCII.space, ASCII.tab: state = .beforeSemicolon
    default: return nil
    }
  }

  /// Whether the line may end here.
  var isComplete: Bool {
    switch state {
    case .name, .token, .afterQuoted: true
    default: false
    }
  }

  /// Checks one byte that does not end the line.
  ///
  /// - Throws: 400 if the grammar does not allow it.
  mutating func take(_ byte: UInt8) throws(Problem) {
    guard let next = next(after: byte) else {
      throw .invalidRequest("A chunk extension must be a name, or a name and a value, after a semicolon.")
    }
    state = next
  }

  private func next(after byte: UInt8) -> State? {
    let isBlank = byte == ASCII.space || byte == ASCII.tab
    let isToken = ASCII.isTokenCharacter(byte)
    let isSemicolon = byte == UInt8(ascii: ";")
    switch state {
    case .beforeSemicolon: return isSemicolon ? .beforeName : isBlank ? .beforeSemicolon : nil
    case .beforeName: return isToken ? .name : isBlank ? .beforeName : nil
    case .name, .afterName:
      if isSemicolon { return .beforeName }
      if byte == UInt8(ascii: "=") { return .beforeValue }
      if isBlank { return .afterName }
      return isToken && isComplete ? .name : nil
    case .beforeValue:
      if byte == UInt8(ascii: "\"") { return .quoted }
      return isToken ? .token : isBlank ? .beforeValue : nil
    case .token, .afterQuoted:
      if isSemicolon { return .beforeName }
      if isBlank { return .beforeSemicolon }
      return isToken && isInToken ? .token : nil
    case .quoted:
      if byte == UInt8(ascii: "\"") { return .afterQuoted }
      if byte == UInt8(ascii: "\\") { return .escaped }
      return ASCII.isFieldValueCharacter(byte) ? .quoted : nil
    case .escaped: return ASCII.isFieldValueCharacter(byte) ? .quoted : nil
    }
  }

  private var isInToken: Bool { if case .token = state { true } else { false } }
}
