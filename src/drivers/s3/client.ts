/** What users bring, by shape: nothing is imported. */

/** As much of `fetch` as is used here. */
export type S3Fetch = (
  url: string,
  init: {
    readonly method: string
    readonly headers: Record<string, string>
    readonly body?: string
    readonly redirect: 'manual'
    readonly signal: AbortSignal
  },
) => Promise<Response>

/** Options of one call. */
export interface SdkCallOptions {
  readonly abortSignal?: AbortSignal
}

/** The parts of an `S3` of `@aws-sdk/client-s3` that are used here, by shape. An `S3Client` has no such methods. */
export interface S3Like {
  getObject(input: never, options?: SdkCallOptions): Promise<object>
  putObject(input: never, options?: SdkCallOptions): Promise<object>
  listObjectsV2(input: never, options?: SdkCallOptions): Promise<object>
  getBucketVersioning(input: never, options?: SdkCallOptions): Promise<object>
  getBucketLifecycleConfiguration(input: never, options?: SdkCallOptions): Promise<object>
  getObjectLockConfiguration(input: never, options?: SdkCallOptions): Promise<object>
}
