/** The conformance suite on a sound provider, by a real runner and by a recording one. */
import { afterAll, describe, it } from 'vitest'
import { describeProvider } from '../../../src/testing/index.ts'
import { SOUND_FIXTURES, SoundProvider } from './sound-provider.ts'

describeProvider('tickets', () => new SoundProvider(), SOUND_FIXTURES, { describe, it, afterAll })
