import { describe, expect, it } from 'vitest'
import { readArguments } from './arguments.ts'

describe('what a campaign is asked for', () => {
  it('has a seed of its own, five minutes and all faults where nothing is said', () => {
    expect(readArguments([], {})).toEqual({
      seed: expect.any(Number),
      minutes: 5,
      perMinute: 15,
      kinds: null,
      hasPooler: false,
      temporalServer: 'dev',
      pictures: null,
    })
  })

  it('takes what is said', () => {
    const words =
      '--seed 7 --minutes 0.5 --faults kill,disk --per-minute 20 --pooler --full-server --pictures shots'.split(' ')
    expect(readArguments(words, { CHAOS_SEED: '8' })).toEqual({
      seed: 7,
      minutes: 0.5,
      perMinute: 20,
      kinds: ['kill', 'disk'],
      hasPooler: true,
      temporalServer: 'full',
      pictures: 'shots',
    })
    expect(readArguments([], { CHAOS_SEED: '8' })).toMatchObject({ seed: 8 })
    expect(readArguments(['--help'], {})).toBeNull()
  })

  it.each([
    [['--seed', '-1'], /--seed/],
    [['--seed', ''], '--seed: expected an integer from 0 to 4294967295, received "-"'],
    [['--minutes', '0'], '--minutes: expected a number from 0.5 to 240, received "0"'],
    [['--minutes', ' '], '--minutes: expected a number from 0.5 to 240, received " "'],
    [['--per-minute', 'many'], '--per-minute: expected a number from 1 to 60, received "many"'],
    [['--faults', 'kill,fire'], /--faults: expected some of kill, stop, .* received "kill,fire"/],
    [['--faults', 'kill,kill'], /--faults: expected some of/],
    [['--fault', 'kill'], /--fault/],
    [['more'], /more/],
  ])('refuses %j', (words, message) => {
    expect(() => readArguments(words, {})).toThrow(message)
  })
})
