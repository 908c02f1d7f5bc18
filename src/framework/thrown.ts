/** What was thrown, as texts. Anything can be thrown: what can't be read is said to be so, and nothing here throws. */
export interface ThrownTexts {
  /** Null: no error was thrown. */
  readonly name: string | null
  readonly message: string
  readonly code: string | number | null
}

const UNREADABLE = '(unreadable)'

export function thrownTexts(thrown: unknown): ThrownTexts {
  if (!isError(thrown)) return { name: null, message: textOf(thrown), code: null }
  const code = read(thrown, 'code', null)
  return {
    name: textOf(read(thrown, 'name', UNREADABLE) ?? 'Error'),
    message: textOf(read(thrown, 'message', UNREADABLE) ?? ''),
    code: typeof code === 'string' || typeof code === 'number' ? code : null,
  }
}

/** Of an error whose `name` is the inherited one: `Error` where its class has none, too. */
export function classNameOf(thrown: unknown): string {
  try {
    const name: unknown = (thrown as Error).constructor.name
    return typeof name === 'string' && name !== '' ? name : 'Error'
  } catch {
    return 'Error'
  }
}

/** Where it was thrown, a line each, without its text: that may quote a secret. */
export function stackFrames(thrown: unknown): string[] {
  const stack = isError(thrown) ? textOf(read(thrown, 'stack', '')) : ''
  return stack
    .replace(thrownTexts(thrown).message, '')
    .split('\n')
    .filter((line) => /^ {4}at .*:\d+:\d+\)?$/.test(line))
    .map((line) => line.trim())
}

/** A proxy may refuse the question. */
export function isError(thrown: unknown): thrown is Error {
  try {
    return thrown instanceof Error
  } catch {
    return false
  }
}

/** @param unreadable stands for a field whose getter throws */
function read(error: Error, field: 'name' | 'message' | 'code' | 'stack', unreadable: string | null): unknown {
  try {
    return Reflect.get(error, field)
  } catch {
    return unreadable
  }
}

/** A field of what was thrown, or of what it holds. Undefined where that is no object, or the field's getter throws. */
export function field(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return Reflect.get(value, key)
  } catch {
    return undefined
  }
}

/** An object without a prototype has no text, nor has one whose own `toString()` throws. */
function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    return typeof value
  }
}

/**
 * What kind of error it is: its `code`, else the name of its class. Never its text: what a provider's token endpoint
 * says may quote new tokens, which redaction does not know yet.
 */
export function errorKind(error: unknown): string {
  const words = [field(error, 'code'), field(error, 'name')]
  const kind = words.find((word) => typeof word === 'string' && /^[\w.-]{1,64}$/.test(word))
  return typeof kind === 'string' ? kind : 'unknown'
}
