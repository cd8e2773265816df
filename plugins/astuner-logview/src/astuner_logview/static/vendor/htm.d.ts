declare const htm: {
  bind(create: (type: unknown, props: object | null, ...children: any[]) => unknown): (strings: TemplateStringsArray, ...values: unknown[]) => unknown;
};
export default htm;
