/** What `npm start` and `npm run demo` take. */
import { describe, expect, it } from 'vitest'
import { readStartArguments } from '../../dev/start-arguments.ts'

describe('what npm start takes', () => {
  it.each([
    [[], { kind: 'start', isDemo: false, folder: undefined, isSteady: false }],
    [['demo'], { kind: 'start', isDemo: true, folder: undefined, isSteady: false }],
    [['demo', '--data', 'x'], { kind: 'start', isDemo: true, folder: 'x', isSteady: false }],
    [['--steady', '--data=x'], { kind: 'start', isDemo: false, folder: 'x', isSteady: true }],
    [['demo', '--help'], { kind: 'help' }],
    [['-h'], { kind: 'help' }],
  ])('reads %j', (words, read) => {
    expect(readStartArguments(words)).toEqual(read)
  })

  it('refuses an option that npm has taken for itself', () => {
    expect(readStartArguments([], { npm_config_steady: 'true' })).toEqual({
      kind: 'refused',
      reason:
        "npm took '--steady' for itself: write npm start -- --steady. Allowed: demo, --data <folder>, --steady, --help.",
    })
  })

  it.each([
    [['--stedy'], "Unknown option '--stedy'. "],
    [['--data'], "Option '--data <value>' argument missing. "],
    [['--data='], "Option '--data' needs a folder. "],
    [['--steady=yes'], "Option '--steady' does not take an argument. "],
    [['dmeo'], "Unexpected word 'dmeo'. "],
    [['demo', 'demo'], "Unexpected word 'demo'. "],
  ])('refuses %j in one line', (words, reason) => {
    expect(readStartArguments(words)).toEqual({
      kind: 'refused',
      reason: `${reason}Allowed: demo, --data <folder>, --steady, --help.`,
    })
  })
})
