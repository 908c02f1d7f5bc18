import fc from 'fast-check'
import { describe, expect, it, onTestFinished } from 'vitest'
import { InvalidArgumentException } from '../../src/framework/errors.ts'
import { boundLogger, errorLine, integrationLogger, unfailingLogger } from '../../src/framework/logger.ts'
import { ODD_ERRORS } from '../support/odd-errors.ts'

function error(message: string, fields: Record<string, unknown> = {}): Error {
  return Object.assign(new Error(message), fields)
}

describe('an error as one line', () => {
  it.each<[string, unknown, string]>([
    ['name and message', new TypeError('no'), 'TypeError: no'],
    ['a code', error('no', { code: 'ECONNRESET' }), 'Error: no (ECONNRESET)'],
    ['a numeric code', error('no', { code: 404 }), 'Error: no (404)'],
    ['no code that is an object', error('no', { code: {} }), 'Error: no'],
    [
      'one of ours',
      new InvalidArgumentException('id', 'a number'),
      'InvalidArgumentException: Invalid id: a number (invalid_argument)',
    ],
    ['no stack and no cause', error('no', { cause: error('why') }), 'Error: no'],
    ['a thrown text', 'no', 'no'],
    ['a thrown number', 7, '7'],
    ['nothing thrown', undefined, 'undefined'],
    ['a thrown symbol', Symbol('no'), 'Symbol(no)'],
    ['a thrown object without a text', Object.create(null), 'object'],
    ['U+0000 nowhere', error('a\u0000b', { code: 'c\u0000d' }), 'Error: ab (cd)'],
    ['U+0000 nowhere in a text', 'a\u0000b', 'ab'],
  ])('%s', (_, thrown, line) => {
    expect(errorLine(thrown, 200)).toBe(line)
  })

  it.each(ODD_ERRORS)('is one also of %s', (_, { make, line }) => {
    expect(errorLine(make(), 200)).toBe(line)
  })

  it('keeps the code when the message is cut', () => {
    expect(errorLine(error('x'.repeat(100), { code: 'ECONNRESET' }), 30)).toBe('Error: xxxxxxxxxx (ECONNRESET)')
  })

  it('is never longer than asked, and holds no U+0000', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '\u0000', '😀', ' '), maxLength: 80 })
    fc.assert(
      fc.property(
        text,
        fc.option(text),
        fc.boolean(),
        fc.integer({ min: 1, max: 100 }),
        (message, code, thrownText, max) => {
          const line = errorLine(thrownText ? message : error(message, { code }), max)
          expect(line.length).toBeLessThanOrEqual(max)
          expect(line).not.toContain('\u0000')
        },
      ),
    )
  })
})

describe("a host's logger", () => {
  const LEVELS = ['debug', 'info', 'warn', 'error'] as const
  const writing = (write: () => unknown) => {
    const logger = { debug: write, info: write, warn: write, error: write } as never
    for (const level of LEVELS) unfailingLogger(logger)[level]({ event: 'thing.happened' }, 'it happened')
  }

  it('gets each line as it is, and is asked for its levels', () => {
    const lines: unknown[] = []
    class Own {
      readonly levels = LEVELS
      #write = (...line: unknown[]) => void lines.push(line)
      debug = (fields: object, message: string) => this.#write('debug', fields, message)
      info = (fields: object, message: string) => this.#write('info', fields, message)
      warn = (fields: object, message: string) => this.#write('warn', fields, message)
      error(fields: object, message: string) {
        this.#write('error', fields, message)
      }
      isLevelEnabled(level: string) {
        return this.levels.includes(level as never)
      }
    }
    const logger = unfailingLogger(new Own())
    for (const level of LEVELS) logger[level]({ a: 1 }, level)
    expect(lines).toEqual(LEVELS.map((level) => [level, { a: 1 }, level]))
    expect([logger.isLevelEnabled?.('info'), logger.isLevelEnabled?.('trace')]).toEqual([true, false])
  })

  it('that throws hurts nothing', () => {
    const throwing = () => {
      throw new Error('the disk is full')
    }
    expect(() => writing(throwing)).not.toThrow()
  })

  it('that rejects hurts nothing: no rejection is left over', async () => {
    const rejections: unknown[] = []
    const note = (reason: unknown): void => void rejections.push(reason)
    process.on('unhandledRejection', note)
    onTestFinished(() => void process.off('unhandledRejection', note))
    writing(async () => {
      throw new Error('the disk is full')
    })
    // Node tells of it before the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve))
    expect(rejections).toEqual([])
  })
})

describe('a bound logger', () => {
  const lines: unknown[] = []
  const logger = {
    debug: (fields: object, message: string) => lines.push(['debug', fields, message]),
    info: (fields: object, message: string) => lines.push(['info', fields, message]),
    warn: (fields: object, message: string) => lines.push(['warn', fields, message]),
    error: (fields: object, message: string) => lines.push(['error', fields, message]),
  }

  it.each(['debug', 'info', 'warn', 'error'] as const)('adds its fields to a line of level %s', (level) => {
    integrationLogger({ logger }, { id: 7, provider: 'acme' })[level]({ event: 'thing.happened' }, 'it happened')
    expect(lines.at(-1)).toEqual([level, { integration: 7, provider: 'acme', event: 'thing.happened' }, 'it happened'])
  })

  it("lets a line's own field win", () => {
    boundLogger(logger, { integration: 7 }).info({ integration: 8 }, 'another one')
    expect(lines.at(-1)).toEqual(['info', { integration: 8 }, 'another one'])
  })

  it('knows the levels that its logger writes, if that one tells', () => {
    expect(boundLogger({ ...logger, isLevelEnabled: (level) => level !== 'debug' }, {}).isLevelEnabled?.('debug')).toBe(
      false,
    )
    expect(boundLogger(logger, {}).isLevelEnabled).toBeUndefined()
  })
})
