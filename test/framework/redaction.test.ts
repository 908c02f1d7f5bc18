import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  cutToBytes,
  parseRedactionPath,
  REDACTED,
  redactBody,
  redactLikely,
  redactStart,
  redactText,
  secretsOf,
} from '../../src/framework/redaction.ts'

const TOKEN = 'gho_open sesame+/="'

describe('the secrets of credentials', () => {
  it('are the strings of at least 8 characters, at any depth', () => {
    const secrets = secretsOf({
      token: '12345678',
      short: '1234567',
      nested: [{ key: 'abcdefgh' }],
      id: 123456789,
      no: null,
    })
    expect(secrets).toEqual(expect.arrayContaining(['12345678', 'abcdefgh']))
    expect(secrets).not.toEqual(expect.arrayContaining(['1234567']))
    expect(secrets).not.toEqual(expect.arrayContaining(['123456789']))
  })

  it('come longest first, so that no part of one stays', () => {
    const secrets = secretsOf({ a: 'secret-1', b: 'secret-1-and-more' })
    expect(secrets.indexOf('secret-1-and-more')).toBeLessThan(secrets.indexOf('secret-1'))
    expect(redactText('secret-1-and-more', secrets)).toBe(REDACTED)
  })

  it.each<unknown>([{}, null, undefined, 'short', 7, []])('of %j are none', (credentials) => {
    expect(secretsOf(credentials)).toEqual([])
  })

  it('are found in credentials that contain themselves, which a check refuses later', () => {
    const credentials: Record<string, unknown> = { token: 'secret-1' }
    credentials.again = credentials
    expect(secretsOf(credentials)).toContain('secret-1')
  })
})

/** The ways in which a secret turns up again. */
const FORMS: Record<string, (secret: string) => string> = {
  'as it is': (secret) => secret,
  'URL-encoded': (secret) => encodeURIComponent(secret),
  'URL-encoded in lower case': (secret) => encodeURIComponent(secret).replace(/%../g, (byte) => byte.toLowerCase()),
  'by a quoter that keeps slashes': (secret) => encodeURIComponent(secret).replaceAll('%2F', '/'),
  'by a quoter that encodes every byte': (secret) => Buffer.from(secret).toString('hex').replace(/../g, '%$&'),
  'in a form': (secret) => new URLSearchParams({ '': secret }).toString().slice(1),
  'as base64': (secret) => Buffer.from(secret).toString('base64'),
  'as base64url': (secret) => Buffer.from(secret).toString('base64url'),
  'in a JSON text': (secret) => JSON.stringify(secret).slice(1, -1),
  'in a JSON text that escapes slashes': (secret) => JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
}

describe('a text', () => {
  it.each(Object.keys(FORMS))('loses a secret %s', (form) => {
    const appearance = FORMS[form]?.(TOKEN) ?? ''
    expect(redactText(`before ${appearance} after ${appearance}`, secretsOf({ TOKEN }))).toBe(
      `before ${REDACTED} after ${REDACTED}`,
    )
  })

  it('loses a private key, whose line breaks JSON escapes', () => {
    const key = '-----BEGIN KEY-----\nMIIE+/==\n-----END KEY-----\n'
    expect(redactText(JSON.stringify({ key }), secretsOf({ key }))).toBe(`{"key":"${REDACTED}"}`)
  })

  it.each(['-----BEGIN KEY-----\nMIIE+/==\n-----END KEY-----\n', 'p"ss\\word9'])(
    'loses a secret in JSON inside a JSON string: %j',
    (secret) => {
      const inner = JSON.stringify({ secret })
      const body = JSON.stringify({ payload: inner })
      for (const sent of [body, body.replaceAll('/', '\\/')])
        expect(redactBody(sent, secretsOf({ secret }))).toBe(JSON.stringify({ payload: `{"secret":"${REDACTED}"}` }))
    },
  )

  it.each(['u:', 'us:', 'use:'])('loses a secret inside Basic authentication, for %s', (user) => {
    const secret = 'hunter22-öpen+sesame'
    for (const written of [secret, new URLSearchParams({ '': secret }).toString().slice(1)])
      for (const encoding of ['base64', 'base64url'] as const) {
        const sent = Buffer.from(`${user}${written}:more`).toString(encoding)
        const [before = '', after = ''] = redactText(sent, secretsOf({ secret })).split(REDACTED)
        // No more is left than what was beside it, and the two characters that hold bits of both.
        expect(sent.startsWith(before) && sent.endsWith(after)).toBe(true)
        expect(before.length + after.length).toBeLessThanOrEqual(Math.ceil((user.length + ':more'.length) / 0.75) + 3)
      }
  })

  it('loses a private key that was trimmed, has the other line breaks, or both', () => {
    const key = '-----BEGIN KEY-----\nMIIE+/==\n-----END KEY-----\n'
    const secrets = secretsOf({ key })
    const others = secretsOf({ key: key.replaceAll('\n', '\r\n') })
    for (const written of [key.trim(), key.replaceAll('\n', '\r\n'), key.trim().replaceAll('\n', '\r\n')])
      for (const known of [secrets, others]) {
        expect(redactText(`<${written}>`, known)).toBe(`<${REDACTED}>`)
        expect(redactText(`<${encodeURIComponent(written)}>`, known)).toBe(`<${REDACTED}>`)
        expect(redactBody(JSON.stringify({ written }), known)).toBe(`{"written":"${REDACTED}"}`)
      }
  })

  it('loses overlapping secrets whole', () => {
    expect(redactText('<abcabcabcabca>', secretsOf({ a: 'abcabcabca', b: 'cabcabca' }))).toBe(`<${REDACTED}>`)
  })

  it('loses the same whether it is short or long', () => {
    const piece = fc.constantFrom('abcabcabc', 'bcabcabcd', 'abc', 'd', '%61', '\\u0062', '\\n', 'é', '%c3%a9', '"')
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
        const text = `${pieces.join('')}|`
        const secrets = secretsOf(['abcabcabc', 'bcabcabcd', 'cdéabcab', 'nabcabca'])
        const filler = '.'.repeat(5_000)
        expect(redactText(text + filler, secrets)).toBe(redactText(text, secrets) + filler)
      }),
      { numRuns: 300 },
    )
  })

  // Not the mark itself, nor a part of it: what stands in its place would be found again.
  const secret = fc
    .string({ unit: 'grapheme', minLength: 8, maxLength: 40 })
    .filter((text) => text.length >= 8 && !REDACTED.includes(text) && !text.includes('[') && !text.includes(']'))

  it('holds no secret any more, in any form', () => {
    fc.assert(
      fc.property(
        fc.array(secret, { minLength: 1, maxLength: 3 }),
        fc.array(fc.oneof(fc.string(), fc.nat(2)), { maxLength: 8 }),
        fc.constantFrom(...Object.keys(FORMS)),
        (given, parts, form) => {
          const write = FORMS[form] ?? String
          const text = parts.map((part) => (typeof part === 'string' ? part : write(given[part] ?? ''))).join('|')
          const redacted = redactText(text, secretsOf({ given }))
          for (const one of given) for (const spell of Object.values(FORMS)) expect(redacted).not.toContain(spell(one))
        },
      ),
      { numRuns: 1_000 },
    )
  })

  it('stays as it is without them', () => {
    fc.assert(
      fc.property(fc.array(secret, { maxLength: 3 }), fc.string({ unit: 'binary' }), (given, text) => {
        const secrets = secretsOf({ given })
        fc.pre(!secrets.some((one) => text.includes(one)))
        expect(redactText(text, secrets)).toBe(text)
      }),
    )
  })

  it('takes any credentials, half a surrogate pair too', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('\ud83d', '\ude00', 'a', '%'), minLength: 8 }), (token) => {
        expect(redactText(`<${token}>`, secretsOf({ token }))).toBe(`<${REDACTED}>`)
      }),
    )
  })
})

describe('a body', () => {
  it.each(['access_token', 'refresh_token', 'id_token', 'client_secret', 'code_verifier', 'client_assertion'])(
    'loses what stands under %s, at any depth',
    (key) => {
      const body = JSON.stringify({ a: [{ [key]: 'tiny', b: 1 }], [key]: { deep: [1] }, c: null })
      expect(JSON.parse(redactBody(body, []))).toEqual({ a: [{ [key]: REDACTED, b: 1 }], [key]: REDACTED, c: null })
    },
  )

  it.each<[string, string, string]>([
    ['a null', '{"access_token":null}', `{"access_token":"${REDACTED}"}`],
    ['an empty text', '{"access_token":""}', `{"access_token":"${REDACTED}"}`],
    ['zero', '{"access_token":0}', `{"access_token":"${REDACTED}"}`],
    ['a key with escapes', '{"access\\u005ftoken":"x"}', `{"access\\u005ftoken":"${REDACTED}"}`],
    [
      'there twice',
      '{"access_token":1,"access_token":2}',
      `{"access_token":"${REDACTED}","access_token":"${REDACTED}"}`,
    ],
    [
      'deeper than calls can be',
      `${'['.repeat(50_000)}{"id_token":1}${']'.repeat(50_000)}`,
      `${'['.repeat(50_000)}{"id_token":"${REDACTED}"}${']'.repeat(50_000)}`,
    ],
    ['a list', '[{"access_token":"x"}]', `[{"access_token":"${REDACTED}"}]`],
    [
      'a form',
      'grant_type=x&client_secret=a%20b&code_verifier=c',
      `grant_type=x&client_secret=${REDACTED}&code_verifier=${REDACTED}`,
    ],
    [
      'the form that a token endpoint answers',
      'access_token=gho_x&scope=&token_type=bearer',
      `access_token=${REDACTED}&scope=&token_type=bearer`,
    ],
  ])('loses it, be it %s', (_, body, redacted) => {
    expect(redactBody(body, [])).toBe(redacted)
  })

  it.each([
    ['spaces and order', '{ "b" : 1.0,\n "a": 12345678901234567890 }'],
    ['the word as a value', '{ "grant_type" : "refresh_token" }'],
    ['a key that only contains it', '{ "access_token_url" : "https://x" }'],
    ['another case', '{ "Access_Token" : 1 }'],
    ['no JSON', 'the access_token is missing'],
    ['a form field that only ends so', 'my_access_token=1'],
    ['broken JSON', '{"a":'],
    ['escapes', '{ "a" : "\\u00e9" }'],
  ])('comes back byte for byte: %s', (_, body) => {
    expect(redactBody(body, [])).toBe(body)
  })

  it('loses the credentials, too', () => {
    const body = JSON.stringify({
      url: `https://x/?t=${encodeURIComponent(TOKEN)}`,
      echoed: TOKEN,
      access_token: 'new',
    })
    expect(JSON.parse(redactBody(body, secretsOf({ TOKEN })))).toEqual({
      url: `https://x/?t=${REDACTED}`,
      echoed: REDACTED,
      access_token: REDACTED,
    })
  })

  it('keeps all other values, in their places', () => {
    const withoutSecretKeys = fc.jsonValue()
    fc.assert(
      fc.property(withoutSecretKeys, (value) => {
        const body = JSON.stringify({ access_token: 'x', value })
        expect(JSON.parse(redactBody(body, []))).toEqual({
          access_token: REDACTED,
          value: JSON.parse(JSON.stringify(value)),
        })
      }),
    )
  })
})

describe('a body of the worst kind', () => {
  const LENGTH = 800_000
  const short = '1234567X'
  const long = `${'a'.repeat(4_000)}X`
  const escaped = (text: string) => text.replace(/./g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`)

  it.each([
    ['a token again and again', JSON.stringify(short.repeat(LENGTH / 8))],
    ['a token again and again, beside an escape', `"\\u0041${short.repeat(LENGTH / 8)}"`],
    ['a token again and again, escaped', `"${escaped(short).repeat(LENGTH / 48)}"`],
    ['a token again and again, percent-encoded', `"\\u0041${encodeURIComponent('é').repeat(LENGTH / 6)}${short}"`],
    ['what is nearly a token again and again', JSON.stringify('a'.repeat(LENGTH))],
  ])('takes no more time than others: %s', (_, body) => {
    const secrets = secretsOf([short, long, 'é'.repeat(500)])
    const startedAt = performance.now()
    redactBody(body, secrets)
    // Some 0.05 s; what is quadratic takes a minute.
    expect(performance.now() - startedAt).toBeLessThan(5_000)
  })

  it('loses more finds than a call has arguments', () => {
    const body = `"\\u0041${'12345678'.repeat(130_000)}"`
    expect(redactBody(body, secretsOf(['12345678']))).toBe(`"\\u0041${REDACTED.repeat(130_000)}"`)
  })
})

describe('the beginning of a long text', () => {
  it('holds no half of a secret that stands where reading ends', () => {
    const secret = 'open-sesame-open-sesame'
    for (let before = 65_536 - 30; before < 65_536; before += 1) {
      const said = redactStart(
        `${'12345678'.repeat(before / 8)}${'.'.repeat(before % 8)}${secret} and more`,
        secretsOf(['12345678', secret]),
        100_000,
      )
      expect(said.replaceAll(REDACTED, '')).not.toContain('open')
    }
  })
})

describe('a JSON body with paths', () => {
  it.each<[string, string, string, string]>([
    ['a member', 'a', '{"a":1,"b":1}', '{"a":"*","b":1}'],
    ['a member of a member', 'a.b', '{"b":1,"a":{"b":{"deep":[1]},"c":2}}', '{"b":1,"a":{"b":"*","c":2}}'],
    ['null', 'a', '{"a":null}', '{"a":"*"}'],
    ['false', 'a', '{"a":false}', '{"a":"*"}'],
    ['zero', 'a', '{"a":0}', '{"a":"*"}'],
    ['an empty text', 'a', '{"a":""}', '{"a":"*"}'],
    ['a list', 'a', '{"a":[1,{"b":"]"}]}', '{"a":"*"}'],
    ['any member', 'a.*', '{"a":{"x":1,"y":{"z":2}}}', '{"a":{"x":"*","y":"*"}}'],
    ['any element', 'a.*.b', '{"a":[{"b":1},{"c":2},{"b":3}]}', '{"a":[{"b":"*"},{"c":2},{"b":"*"}]}'],
    ['one level only', '*.b', '{"x":{"b":1,"c":{"b":2}}}', '{"x":{"b":"*","c":{"b":2}}}'],
    ['an element by its place', 'a.1', '{"a":[0,1,2]}', '{"a":[0,"*",2]}'],
    ['elements of a list at the top', '*.b', '[{"b":1}]', '[{"b":"*"}]'],
    ['a dot in a name', 'a\\.b', '{"a.b":1,"a":{"b":2}}', '{"a.b":"*","a":{"b":2}}'],
    ['a name with escapes', 'é', '{"\\u00e9":1}', '{"\\u00e9":"*"}'],
    [
      'big numbers elsewhere',
      'a',
      '{ "a" : 1 ,\n "n":12345678901234567890, "f" : 1.0e2 }',
      '{ "a" : "*" ,\n "n":12345678901234567890, "f" : 1.0e2 }',
    ],
    ['the same name twice', 'a', '{"a":1,"a":2}', '{"a":"*","a":"*"}'],
  ])('loses %s', (_, path, body, expected) => {
    expect(redactBody(body, [], [parseRedactionPath(path)])).toBe(expected.replaceAll('"*"', `"${REDACTED}"`))
  })

  it.each<[string, string, string]>([
    ['a missing path', 'a.b', '{ "a" : {} , "b":1}'],
    ['a path through a scalar', 'a.b', '{"a":"b","c":[1.50]}'],
    ['a path longer than what is there', 'a.b.c', '{"a":{"b":1}}'],
    ['a list index beyond the end', 'a.9', '{"a":[1]}'],
    ['a scalar', 'a', '"a"'],
    ['no JSON', 'a', 'a=1&b=2'],
    ['an empty body', 'a', ''],
    ['names of every object', 'constructor', '{"a":1}'],
    ['their prototype', '__proto__.a', '{"a":1}'],
  ])('comes back byte for byte: %s', (_, path, body) => {
    expect(redactBody(body, [], [parseRedactionPath(path)])).toBe(body)
  })
})

describe('redaction of JSON', () => {
  // Letters, digits, quotes, slashes and what takes more than a byte; no character of it is used for other texts.
  const SECRET = 'S/€cré"t\\+😀-1'
  const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 2 })
  const spell = (character: string, how: number): string => {
    const code = character.charCodeAt(0)
    if (how === 1 || code < 32) return `\\u${code.toString(16).padStart(4, '0')}`
    if (how === 2) return `\\u${code.toString(16).padStart(4, '0').toUpperCase()}`
    if (character === '/' && how === 3) return '\\/'
    return character === '"' || character === '\\' ? `\\${character}` : character
  }
  const spelled = (text: string) =>
    fc
      .array(fc.nat(3), { minLength: text.length, maxLength: text.length })
      .map((hows) => hows.map((how, at) => spell(text[at] as string, how)).join(''))
  const filler = fc.string({
    unit: fc.constantFrom('a', '.', '*', '{', ']', ',', ':', '\u0007', 'ü', '日'),
    maxLength: 4,
  })

  /** A value as it is written, and as it is to be written afterwards. */
  interface Written {
    readonly before: string
    readonly after: string
  }
  const text: fc.Arbitrary<Written> = fc
    .array(
      fc.oneof(
        filler.chain(spelled).map((raw): Written => ({ before: raw, after: raw })),
        spelled(SECRET).map((raw): Written => ({ before: raw, after: REDACTED })),
      ),
      { maxLength: 3 },
    )
    .map((parts) => ({
      before: `"${parts.map(({ before }) => before).join('')}"`,
      after: `"${parts.map(({ after }) => after).join('')}"`,
    }))
  const same = (raw: string): Written => ({ before: raw, after: raw })
  const scalar = fc.oneof(
    text,
    fc.constantFrom('null', 'true', 'false', '0', '-0.0', '1.50e+2', '12345678901234567890').map(same),
  )
  const { value } = fc.letrec<{ value: Written }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 4 },
      scalar,
      fc.tuple(fc.array(fc.tuple(space, tie('value'), space), { maxLength: 3 }), space).map(([elements, inside]) => {
        const list = (side: keyof Written) =>
          `[${elements.map(([left, element, right]) => left + element[side] + right).join(',') || inside}]`
        return { before: list('before'), after: list('after') }
      }),
      fc
        .tuple(
          fc.array(
            fc.tuple(
              fc
                .constantFrom('a', 'path', 'secret', 'access_token', 'b.c')
                .chain((key) => spelled(key).map((raw) => ({ key, raw }))),
              space,
              tie('value'),
              space,
            ),
            { maxLength: 3 },
          ),
          space,
        )
        .map(([members, inside]) => {
          const object = (side: keyof Written) =>
            `{${
              members
                .map(([{ key, raw }, left, member, right]) => {
                  const isTaken = side === 'after' && key === 'access_token'
                  return `"${raw}"${left}:${right}${isTaken ? `"${REDACTED}"` : member[side]}${left}`
                })
                .join(',') || inside
            }}`
          return { before: object('before'), after: object('after') }
        }),
    ),
  }))

  it('leaves no credential in any spelling and changes no other byte', () => {
    fc.assert(
      fc.property(value, space, ({ before, after }, around) => {
        expect(redactBody(around + before + around, secretsOf({ SECRET }))).toBe(around + after + around)
      }),
      { numRuns: 2_000 },
    )
  })

  it('takes exactly what stands at a path, however it is written', () => {
    fc.assert(
      fc.property(value, value, spelled('secret'), space, (taken, kept, name, between) => {
        const body = (side: keyof Written, at: string) =>
          `{"list":[[${kept[side]}],{"${name}"${between}:${at},"other":${kept[side]}}],"secret":${kept[side]}}`
        expect(redactBody(body('before', taken.before), secretsOf({ SECRET }), [['list', '*', 'secret']])).toBe(
          body('after', `"${REDACTED}"`),
        )
      }),
      { numRuns: 1_000 },
    )
  })

  it.each([
    ['a secret that follows on a backslash', '"\\n12345678"', 'n12345678', `"${REDACTED}"`],
    ['a secret that ends in one', '"12345678\\\\n"', '12345678\\', `"${REDACTED}n"`],
    ['a credential that is JSON itself', '{"a":{"key":"12345678"}}', '{"key":"12345678"}', `{"a":"${REDACTED}"}`],
  ])('stays JSON with %s', (_, body, secret, redacted) => {
    expect(redactBody(body, secretsOf([secret]))).toBe(redacted)
  })

  it('stays JSON when digits of a number are a credential', () => {
    expect(redactBody('{"id":12345678,"ids":[912345678e0,1234567]}', secretsOf({ id: '12345678' }))).toBe(
      `{"id":"${REDACTED}","ids":["${REDACTED}",1234567]}`,
    )
  })
})

describe('a text cut to bytes', () => {
  it.each<[string, string, number | null, string]>([
    ['whole below the limit', 'abc', 64, 'abc'],
    ['whole at the limit', 'x'.repeat(64), 64, 'x'.repeat(64)],
    ['cut one byte above it, with a note', 'x'.repeat(65), 64, `${'x'.repeat(45)} ...[cut, 65 bytes]`],
    ['whole without a limit', 'x'.repeat(100_000), null, 'x'.repeat(100_000)],
    ['counted in bytes', 'é'.repeat(33), 64, `${'é'.repeat(22)} ...[cut, 66 bytes]`],
    ['cut before a character, not in it', `xx${'é'.repeat(33)}`, 64, `xx${'é'.repeat(21)} ...[cut, 68 bytes]`],
  ])('is %s', (_, text, maxBytes, cut) => {
    expect(cutToBytes(text, maxBytes)).toBe(cut)
  })

  it('never exceeds the limit, splits no character, and says how long it was', () => {
    const text = fc.string({ unit: fc.constantFrom('a', 'é', '€', '😀', '\n'), maxLength: 400 })
    fc.assert(
      fc.property(text, fc.integer({ min: 64, max: 300 }), (whole, maxBytes) => {
        const cut = cutToBytes(whole, maxBytes)
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(maxBytes)
        const note = ` ...[cut, ${Buffer.byteLength(whole)} bytes]`
        if (cut === whole) return
        expect(cut.endsWith(note)).toBe(true)
        const head = cut.slice(0, -note.length)
        expect(whole.startsWith(head)).toBe(true)
        expect(head).not.toContain('\ufffd')
        // No more is lost than the rest of one character.
        expect(Buffer.byteLength(cut)).toBeGreaterThan(maxBytes - 4)
      }),
      { numRuns: 1_000 },
    )
  })
})

describe('a text of whose credentials nobody knows', () => {
  it.each([
    ['connect to postgres://app:hunter22@db/app failed', 'connect to postgres://[REDACTED]@db/app failed'],
    ['GET https://api.example/x?key=abc&y=1 (404)', 'GET https://api.example/x?[REDACTED] (404)'],
    ['sent Authorization: Bearer abcdefgh.ijk', 'sent Authorization: Bearer [REDACTED]'],
    ['grant_type=x&refresh_token=1//0abcdefgh&y=1', 'grant_type=x&refresh_token=[REDACTED]&y=1'],
    ['{"client_secret": "shhhhhhhh", "id": 7}', '{"client_secret": "[REDACTED]", "id": 7}'],
    ['"{\\"access_token\\":\\"shhhhhhhh\\"}"', '"{\\"access_token\\":\\"[REDACTED]\\"}"'],
    ['header x-api-key: 0123456789', 'header x-api-key: [REDACTED]'],
    ['    at file:///srv/token.ts?v=1:12:5', '    at file:///srv/token.ts?v=1:12:5'],
    ['the token expired', 'the token expired'],
  ])('%s', (text, redacted) => {
    expect(redactLikely(text)).toBe(redacted)
  })
})
