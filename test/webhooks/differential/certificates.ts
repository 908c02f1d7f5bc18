/** `sns-validator` fetches by `https.get`; here that answers with the certificate that our own fetch is given. */
import { EventEmitter } from 'node:events'
import https from 'node:https'
import type { SchemeKeys } from '../../support/scheme-keys.ts'

export const SNS_CERTIFICATE = 'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-f3ecfb72.pem'

export async function answerCertificates({ fetched }: SchemeKeys): Promise<void> {
  const pem = await fetched.get(SNS_CERTIFICATE)
  const get = (url: unknown, answered: (response: EventEmitter & { statusCode: number }) => void) => {
    const isThere = new URL(String(url)).href === SNS_CERTIFICATE && pem !== null
    const response = Object.assign(new EventEmitter(), { statusCode: isThere ? 200 : 404 })
    answered(response)
    response.emit('data', Buffer.from(pem ?? ''))
    response.emit('end')
    return new EventEmitter()
  }
  https.get = get as unknown as typeof https.get
}
