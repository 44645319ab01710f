"""What columns are called: English words of database headers in Chinese, and Chinese words for one thing."""

from __future__ import annotations

from typing import Final


def _entries(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.replace("\n", " ").split(";") if entry.strip()]


# Headers of databases are often English; questions are not. Each word with what people call it.
ENGLISH: Final = {
    word: tuple(meanings)
    for word, *meanings in _entries("""
    name 名称 姓名 名字; type 类型 种类 类别; category 类别 类型 种类; kind 类型 种类; label 类型 标签;
    level 级别 等级; grade 等级 级别 年级; class 类别 班级; address 地址 住址; phone 电话; telephone 电话;
    mobile 手机; number 号码 编号 号 数量; count 数量 数; amount 金额 数量; id 编号 代码; code 代码 编码;
    province 省份 省; city 城市 市; county 区县 县 区; district 区县 区; country 国家; region 地区; area 面积 地区;
    industry 行业; latitude 纬度; longitude 经度; manager 负责人 经理; owner 所有者 负责人; legal 法定;
    representative 代表人 代表; date 日期 时间; time 时间; year 年份 年; month 月份 月; day 日;
    build 成立 建成 建立 建造 建设; founded 成立; established 成立; created 创建 创立; effective 生效; invalid 失效;
    expire 到期 失效; expiry 到期; valid 有效; issuing 发证 颁发 签发; authority 机关 机构; business 工商 经营 营业;
    license 许可证 执照; organization 组织机构 机构; unified 统一; social 社会; credit 信用; employee 员工 职工;
    staff 员工 职工; population 人口; service 服务; operation 运营; subject 主体 科目; major 重大 专业;
    source 源 来源; total 总; design 设计; storage 储量 存储; price 价格 单价; unit 单位; cost 成本 费用;
    revenue 收入 营收; income 收入; profit 利润; sales 销售额 销量; quantity 数量; weight 重量 体重;
    height 高度 身高; length 长度; width 宽度; age 年龄; gender 性别; sex 性别; email 邮箱; website 网站 网址;
    url 网址; status 状态; state 状态; score 分数 评分 得分; rank 排名 名次; rating 评分; title 标题 题目 职位;
    author 作者; publisher 出版社; department 部门 科室; company 公司; product 产品; brand 品牌; model 型号;
    color 颜色; size 尺寸 大小; capacity 容量; volume 容积 体积; start 开始; end 结束; begin 开始; birth 出生;
    education 学历; school 学校; position 职位 岗位; salary 工资 薪资 薪水; remark 备注; description 描述 说明;
    customer 客户; supplier 供应商; order 订单; percent 比例 占比; rate 比率 率; duration 时长; is 是否;
    postcode 邮编 邮政编码; zip 邮编;
    """)
}
# Two words that together mean something else than each of them: a business license is no 经营许可证.
ENGLISH_PAIRS: Final = {("business", "license"): ("营业执照", "工商营业执照", "工商执照")}
# Words for one thing, within headers and questions alike.
SAME: Final = tuple(
    tuple(group)
    for group in _entries("""
    电话 联系电话 电话号码 联系方式; 地址 住址 所在地 位置; 级别 等级; 类别 类型 种类; 负责人 管理人;
    期初 年初 上年年末 上年末; 期末 年末; 价格 价钱 售价; 薪资 工资 薪水 薪酬; 姓名 名字; 成立 创立 创办 建立;
    数量 个数; 占比 比例 比重; 邮编 邮政编码; 开始 起始; 结束 截止 截至; 分数 得分 成绩; 员工 职工;
    生产厂家 制造商 生产商 厂家; 作者 编者; 人数 人员数量; 英文名 外文名;
    """)
)

_HEADERS: Final = frozenset(
    word
    for words in (*ENGLISH.values(), *ENGLISH_PAIRS.values(), *SAME)
    for word in words
    if len(word) > 1 and not word.isascii()
)


def is_header(text: str) -> bool:
    """Whether a text ends as columns are called: 联系电话, 开业日期."""
    return any(text.endswith(word) for word in _HEADERS)
