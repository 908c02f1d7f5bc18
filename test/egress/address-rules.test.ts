import { describe, expect, it } from 'vitest'
import type { EgressRule } from '../../src/egress/address-rules.ts'
import { bareHost, canonicalHost, EGRESS_RULE, parseEgressRule } from '../../src/egress/address-rules.ts'

describe('a rule of egress', () => {
  it.each<[text: string, rule: EgressRule]>([
    ['api.example.com', { kind: 'host', host: 'api.example.com' }],
    ['API.Example.com.', { kind: 'host', host: 'api.example.com' }],
    ['localhost', { kind: 'host', host: 'localhost' }],
    ['bücher.example', { kind: 'host', host: 'xn--bcher-kva.example' }],
    ['*.example.com', { kind: 'below', host: 'example.com' }],
    ['127.0.0.1', { kind: 'range', address: '127.0.0.1', prefixBits: 32 }],
    ['192.168.100.200', { kind: 'range', address: '192.168.100.200', prefixBits: 32 }],
    ['7.example', { kind: 'host', host: '7.example' }],
    ['example.x7', { kind: 'host', host: 'example.x7' }],
    ['::1', { kind: 'range', address: '::1', prefixBits: 128 }],
    ['[::1]', { kind: 'range', address: '::1', prefixBits: 128 }],
    ['10.0.0.0/8', { kind: 'range', address: '10.0.0.0', prefixBits: 8 }],
    ['127.0.0.1.example.com', { kind: 'host', host: '127.0.0.1.example.com' }],
    ['0.0.0.0/0', { kind: 'range', address: '0.0.0.0', prefixBits: 0 }],
    ['FD00::/8', { kind: 'range', address: 'fd00::', prefixBits: 8 }],
    ['::ffff:10.0.0.0/104', { kind: 'range', address: '::ffff:a00:0', prefixBits: 104 }],
  ])('%s', (text, rule) => {
    expect(parseEgressRule(text)).toEqual(rule)
  })

  it.each([
    ...['', ' ', '*', '*.', '**.example.com', 'api.*.com', '*.127.0.0.1', '.example.com', 'a..b', '.', 'a b', 'a%31'],
    ...['https://api.example.com', 'user@host', 'host:443', '[::1]:80', '[::1', 'host/path', 'host?', 'host#', 'a\\b'],
    ...['10/8', '127.1', '0x7f000001', '2130706433', '010.0.0.1/8', '10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/', '/8'],
    ...['::/129', 'fe80::1%eth0', 'example.com/8', '10.0.0.0/8/8', '10.0.0.0/8.5', '256.0.0.1'],
    ...['x127.0.0.1', 'x.127.0.0.1', '1.127.0.0.1', 'example.7', 'example.7/8'],
  ])('is none: %j', (text) => {
    expect(parseEgressRule(text)).toBeNull()
  })
})

describe('the host of a URL, however it is written', () => {
  it.each([
    ['http://2130706433/', '127.0.0.1'],
    ['http://0x7f.1/', '127.0.0.1'],
    ['http://0177.0.0.1/', '127.0.0.1'],
    ['http://127.1/', '127.0.0.1'],
    ['http://127.0.0.1./', '127.0.0.1'],
    ['http://127。0。0。1/', '127.0.0.1'],
    ['http://①②⑦.⓪.0.1/', '127.0.0.1'],
    ['http://%31%32%37.0.0.1/', '127.0.0.1'],
    ['http://[::FFFF:127.0.0.1]/', '::ffff:7f00:1'],
    ['http://LOCALHOST./', 'localhost'],
    ['http://Bücher.example/', 'xn--bcher-kva.example'],
  ])('%s', (url, host) => {
    expect(bareHost(new URL(url).hostname)).toBe(host)
  })
})

it.each([
  ['api.example.com', 'api.example.com'],
  ['[::1]', '::1'],
  ['::1', '::1'],
  ['', null],
  ['host:8080', null],
  ['[::1]:8080', null],
])('the host %j is %j', (text, host) => {
  expect(canonicalHost(text)).toBe(host)
})

it('the dots of the root go', () => {
  expect(bareHost('example.com..')).toBe('example.com')
  expect([bareHost('x[::1]'), bareHost('[::1]x')]).toEqual(['x[::1]', '[::1]x'])
})

it('what is allowed is said with examples that are', () => {
  for (const example of ['api.example.com', '*.example.com', '10.0.0.0/8']) {
    expect(EGRESS_RULE).toContain(example)
    expect(parseEgressRule(example)).not.toBe(null)
  }
})
