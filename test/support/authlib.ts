/** An authorization server of Authlib's, which judges clients and assertions by code that is not ours: https://docs.authlib.org */
import { join } from 'node:path'
import type { PythonPackage } from './python-environment.ts'
import { findPackage } from './python-environment.ts'
import type { StripePeer } from './stripe-peer.ts'
import { startStripePeer } from './stripe-peer.ts'

const AUTHLIB: PythonPackage = {
  name: 'authlib',
  version: '1.9.10',
  module: 'authlib.oauth2.rfc7523',
  constraints: join(import.meta.dirname, 'authlib-constraints.txt'),
}
const LAUNCHER = join(import.meta.dirname, 'run-authlib.py')
const LISTENING = /^Listening at (127\.0\.0\.1:\d+)$/

/** @param publicKey PEM of the RSA key of its one client, `app`, whose secret is `secret` */
export async function startAuthlib(publicKey: string): Promise<StripePeer> {
  return startStripePeer({
    name: 'authlib',
    command: await findPackage(AUTHLIB),
    args: [LAUNCHER, publicKey],
    env: { PYTHONUNBUFFERED: '1', PYTHONDONTWRITEBYTECODE: '1' },
    listening: LISTENING,
  })
}
