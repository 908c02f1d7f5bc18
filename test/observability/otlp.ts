/**
 * Reads what an exporter sends: OTLP's protobuf, as far as spans need it.
 * https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
 */

export interface SentSpan {
  readonly service: string
  readonly traceId: string
  readonly spanId: string
  /** Null: it begins a trace. */
  readonly parentId: string | null
  readonly name: string
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly events: readonly { readonly name: string; readonly attributes: Readonly<Record<string, unknown>> }[]
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  /** 2: an error. */
  readonly status: number
}

/** Fields of one message by number: numbers as they are, whatever has a length as its bytes. */
type Fields = ReadonlyMap<number, readonly (number | Buffer)[]>

export function spansIn(body: Buffer): SentSpan[] {
  const spans: SentSpan[] = []
  for (const resourceSpans of messages(body, 1)) {
    const [resource = Buffer.alloc(0)] = messages(resourceSpans, 1)
    const service = String(attributesIn(resource, 1)['service.name'])
    for (const scope of messages(resourceSpans, 2))
      for (const span of messages(scope, 2)) spans.push(spanOf(span, service))
  }
  return spans
}

function spanOf(bytes: Buffer, service: string): SentSpan {
  const fields = fieldsOf(bytes)
  const [status] = messages(bytes, 15)
  return {
    service,
    traceId: hex(fields, 1),
    spanId: hex(fields, 2),
    parentId: hex(fields, 4) || null,
    name: text(fields, 5),
    kind: Number(fields.get(6)?.[0] ?? 0),
    attributes: attributesIn(bytes, 9),
    events: messages(bytes, 11).map((event) => ({
      name: text(fieldsOf(event), 2),
      attributes: attributesIn(event, 3),
    })),
    links: messages(bytes, 13).map((link) => ({ traceId: hex(fieldsOf(link), 1), spanId: hex(fieldsOf(link), 2) })),
    status: status === undefined ? 0 : Number(fieldsOf(status).get(3)?.[0] ?? 0),
  }
}

function attributesIn(bytes: Buffer, field: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(bytes, field).map((pair) => {
      const [value = Buffer.alloc(0)] = messages(pair, 2)
      return [text(fieldsOf(pair), 1), readValue(fieldsOf(value))]
    }),
  )
}

function readValue(fields: Fields): unknown {
  const [string] = fields.get(1) ?? []
  if (string !== undefined) return string.toString()
  return fields.get(3)?.[0] ?? fields.get(4)?.[0] ?? fields.get(2)?.[0] ?? null
}

const hex = (fields: Fields, field: number): string =>
  (fields.get(field)?.[0] as Buffer | undefined)?.toString('hex') ?? ''
const text = (fields: Fields, field: number): string => fields.get(field)?.[0]?.toString() ?? ''
const messages = (bytes: Buffer, field: number): Buffer[] =>
  (fieldsOf(bytes).get(field) ?? []).filter((value) => Buffer.isBuffer(value))

/** https://protobuf.dev/programming-guides/encoding/ */
function fieldsOf(bytes: Buffer): Fields {
  const fields = new Map<number, (number | Buffer)[]>()
  let at = 0
  const varint = (): number => {
    let value = 0n
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++] ?? 0
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return Number(BigInt.asIntN(64, value))
    }
  }
  while (at < bytes.length) {
    const tag = varint()
    const field = tag >>> 3
    const known = fields.get(field) ?? []
    fields.set(field, known)
    switch (tag & 7) {
      case 0:
        known.push(varint())
        break
      case 1:
        known.push(bytes.readDoubleLE(at))
        at += 8
        break
      case 2: {
        const length = varint()
        known.push(bytes.subarray(at, at + length))
        at += length
        break
      }
      case 5:
        known.push(bytes.readUInt32LE(at))
        at += 4
        break
      default:
        throw new Error(`field ${field} has the unknown wire type ${tag & 7}`)
    }
  }
  return fields
}
